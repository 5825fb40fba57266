"""Lets Spark find `penstock.{{ cookiecutter.__name }}` by itself."""

from penstock.spark.discovery import bind

DefaultSource = bind("{{ cookiecutter.__name }}")
