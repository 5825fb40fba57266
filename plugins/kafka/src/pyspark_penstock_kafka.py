"""Lets Spark find `penstock.kafka` by itself."""

from penstock.spark.discovery import bind

DefaultSource = bind("kafka")
