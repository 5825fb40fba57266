"""Lets Spark find `penstock.generator` by itself."""

from penstock.spark.discovery import bind

DefaultSource = bind("generator")
