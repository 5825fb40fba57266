"""What the entry point names. It imports no client library: listing what is installed loads it."""

from __future__ import annotations

from penstock.contracts import Connector
{% if cookiecutter.shape == "queue" %}
from {{ cookiecutter.__package }}.queue import {{ cookiecutter.__class }}Source
{% elif cookiecutter.shape == "source" %}
from {{ cookiecutter.__package }}.source import {{ cookiecutter.__class }}Source
{% elif cookiecutter.shape == "sink" %}
from {{ cookiecutter.__package }}.sink import {{ cookiecutter.__class }}Sink
{% else %}
from {{ cookiecutter.__package }}.sink import {{ cookiecutter.__class }}Sink
from {{ cookiecutter.__package }}.source import {{ cookiecutter.__class }}Source
{% endif %}
# CHANGE capabilities: declare what yours can do; the suite holds it to that.
connector = Connector(
    name="{{ cookiecutter.__name }}",
{%- if cookiecutter.shape != "sink" %}
    source={{ cookiecutter.__class }}Source,
{%- endif %}
{%- if "sink" in cookiecutter.shape %}
    sink={{ cookiecutter.__class }}Sink,
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
        "ordered-keys",
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
