"""Lets Spark find `penstock.amqp` by itself."""

from penstock.spark.discovery import bind

DefaultSource = bind("amqp")
