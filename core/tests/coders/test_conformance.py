"""Every coder under the suite that any coder's author gets."""

from penstock.conformance.own.coders import *  # noqa: F403
