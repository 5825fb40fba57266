"""Avro: records alone, with a schema's fingerprint, behind a registry's id, or in files."""
