"""Puts the connector template into the wheel, from the repository or from an unpacked sdist."""

from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TemplateHook(BuildHookInterface):
    def initialize(self, version, build_data):
        root = Path(self.root)
        for place in (root.parent / "cookiecutter-connector", root / "cookiecutter-connector"):
            if (place / "cookiecutter.json").is_file():
                target = "penstock/_template" if self.target_name == "wheel" else place.name
                if version != "editable":
                    build_data["force_include"][str(place)] = target
                return
