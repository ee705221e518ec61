"""job_schema.py SCHEMA PROGRAM FILE...: the schema and the program agree on every file.

Below a folder "bad" a file is to be refused by both, or, where its head says so, by the program
alone; every other file is to be accepted by both. Exit code 77: jsonschema or yaml is missing.
"""

import json
import subprocess
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)


class AsWritten(yaml.SafeLoader):
    """Versions and dates stay what an editor shows: 2.21.0 is a text."""


AsWritten.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in rows if not tag.endswith("timestamp")]
    for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def schema_accepts(validator, text):
    try:
        return validator.is_valid(yaml.load(text, Loader=AsWritten))
    except yaml.YAMLError:
        return False


def program_accepts(program, path):
    """Whether the file has no complaint; that its workers may not fit here is another thing."""
    done = subprocess.run([program, "run", path, "--dry-run"], capture_output=True, text=True)
    if done.returncode not in (0, 2):
        print(f"{path}: exit code {done.returncode}: {done.stderr}")
    return done.returncode == 0


def main(schema_path, program, paths):
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    failures = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        good = "/bad/" not in path
        by_schema = good or "# the schema cannot know\n" in text
        for who, expected, verdict in (
            ("the schema", by_schema, schema_accepts(validator, text)),
            ("the program", good, program_accepts(program, path)),
        ):
            if expected != verdict:
                failures += 1
                print(f"{path}: {who} {'accepts' if verdict else 'refuses'} it")
    return failures > 0


sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
