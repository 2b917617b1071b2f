"""Resources of custom kinds against the schemas that their projects publish, in a folder that a variable names."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import jsonschema
import yaml

#: A folder with CustomResourceDefinitions, as the releases of the Gateway API, its inference extension, the Prometheus
#: operator and KEDA have them. They are no package of an index, and not ours to copy.
VARIABLE = "PUBLISHED_CRDS"


@functools.cache
def schemas() -> dict[tuple[str, str], dict[str, Any]]:
    """The schema of each version and kind; none without the variable."""
    found = {}
    for file in sorted(Path(os.environ[VARIABLE]).glob("*.yaml")) if VARIABLE in os.environ else ():
        for one in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            if one and one["kind"] == "CustomResourceDefinition":
                spec = one["spec"]
                for version in spec["versions"]:
                    group = f"{spec['group']}/{version['name']}"
                    found[group, spec["names"]["kind"]] = _closed(version["schema"]["openAPIV3Schema"])
    return found


def faults(resource: dict[str, Any]) -> list[str]:
    """What the schema of the resource's kind has against it; an unknown field, too."""
    schema = schemas()[resource["apiVersion"], resource["kind"]]
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(resource)]


def _closed(schema: Any, name: str = "") -> Any:
    """A copy in which an object has its properties only, as an API server would have it that prunes all others."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: _closed(value, key) for key, value in schema.items()}
    open_ended = "additionalProperties" in copy or copy.get("x-kubernetes-preserve-unknown-fields")
    if name != "metadata" and isinstance(copy.get("properties"), dict) and not open_ended and "type" in copy:
        copy["additionalProperties"] = False
    if copy.get("x-kubernetes-int-or-string"):
        copy["type"] = ["integer", "string"]
    return copy
