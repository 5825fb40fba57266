"""Protobuf: messages by descriptor set, compiled class or registry."""
