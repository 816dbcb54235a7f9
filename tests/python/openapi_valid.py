"""openapi-spec-validator against the description of the server at the port given."""

import json
import sys
import urllib.request

from openapi_spec_validator import validate

with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/openapi.json") as answer:
    description = json.load(answer)
validate(description)
assert len(description["paths"]) > 100, len(description["paths"])
