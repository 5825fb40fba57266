"""Lets Spark find `penstock.stdout` by itself."""

from penstock.spark.discovery import bind

DefaultSource = bind("stdout")
