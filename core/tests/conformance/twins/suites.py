"""The suites of all twins, one class each; run in a process of its own by `test_twins`."""

import pytest

from penstock.conformance import CoderSuite, ConnectorSuite, TransformSuite
from penstock.conformance.reference.cases import (
    folder_case,
    form_case,
    mask_case,
    sockets_case,
)
from twins import heavy, lazy, lonely, queues, shapes, sinks, sources, typed  # noqa: F401
from twins.coders import CODERS
from twins.making import TWINS
from twins.transforms import TRANSFORMS


def connector_suite(twin):
    def case(self, tmp_path):
        extra = dict(twin.case)
        more = extra.pop("more", {})
        make = folder_case if twin.base == "folder" else sockets_case
        with make(tmp_path) as made:
            made.source = {**made.source, **more}
            made.patience = 2.0
            for name, value in extra.items():
                setattr(made, name, value)
            yield made

    return type(
        f"Test{twin.connector.name}",
        (ConnectorSuite,),
        {"connector": twin.connector, "breaks": twin.clause, "case": pytest.fixture(case)},
    )


def plain_suite(base, attribute, clause, cls, make):
    def case(self):
        return make()

    body = {attribute: cls, "breaks": clause, "case": pytest.fixture(case)}
    return type(f"Test{cls.__name__}", (base,), body)


for _twin in TWINS:
    globals()[f"Test_{_twin.clause}_{_twin.connector.name}"] = connector_suite(_twin)
for _clause, _cls in CODERS.items():
    globals()[f"Test_{_clause}"] = plain_suite(CoderSuite, "coder", _clause, _cls, form_case)
for _clause, _cls in TRANSFORMS.items():
    globals()[f"Test_{_clause}"] = plain_suite(
        TransformSuite, "transform", _clause, _cls, mask_case
    )
