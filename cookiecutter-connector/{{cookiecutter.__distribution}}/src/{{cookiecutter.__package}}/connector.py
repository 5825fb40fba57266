"""What the entry point names. It names classes by their place: listing imports none of them."""

from __future__ import annotations

from penstock.contracts import Connector

# CHANGE capabilities: declare what yours can do; the suite holds it to that.
connector = Connector(
    name="{{ cookiecutter.__name }}",
{%- if cookiecutter.shape == "queue" %}
    queue=True,
{%- endif %}
{%- if cookiecutter.shape != "sink" %}
    source="{{ cookiecutter.__package }}.{{ "queue" if cookiecutter.shape == "queue" else "source" }}:{{ cookiecutter.__class }}Source",
{%- endif %}
{%- if "sink" in cookiecutter.shape %}
    sink="{{ cookiecutter.__package }}.sink:{{ cookiecutter.__class }}Sink",
{%- endif %}
    summary="{{ cookiecutter.__name }}, in one line for `penstock connectors`.",
    capabilities={
{%- if cookiecutter.shape == "queue" %}
        "event-time",
        "headers",
        "keys",
        "lag",
        "limits-bytes",
        "live",
        "reconnects",
{%- elif cookiecutter.shape == "sink" %}
        "exactly-once",
{%- else %}
        "event-time",
{%- if "sink" in cookiecutter.shape %}
        "exactly-once",
{%- endif %}
        "headers",
        "keys",
        "lag",
        "limits-bytes",
        "live",
        "ordered-keys",
        "splits",
{%- endif %}
    },
)
