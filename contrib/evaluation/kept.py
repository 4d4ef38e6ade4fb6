"""What a long comparison has measured, kept in a file, so that it can be broken off and taken up again."""
import json
import os
import sys


class Figures:
    """Of one run, as they were written."""

    def __init__(self, figures):
        self.__dict__.update(figures)


class Store:
    """A line a run, JSON, as they come; the first line says of what they are. No path: nothing is kept."""

    def __init__(self, path, names, head):
        """names: of what a run is known by."""
        self.path, self.names, self.runs = path, names, {}
        if path is None:
            return
        lines = []
        if os.path.exists(path):
            with open(path, "rb") as f:
                data = f.read()
            whole = data[:data.rfind(b"\n") + 1]  # the last line may have been broken off
            os.truncate(path, len(whole))
            lines = [json.loads(line) for line in whole.splitlines()]
        if not lines:
            self.write(head)
        elif lines[0] != head:
            sys.exit(f"{path} has figures of something else ({lines[0]}, not {head}); name another file")
        for line in lines[1:]:
            key = tuple(line.pop(name) for name in names)
            self.runs[key] = Figures(line)

    def get(self, key):
        return self.runs.get(tuple(key))

    def add(self, key, run):
        self.runs[tuple(key)] = run
        if self.path is not None:
            self.write(dict(zip(self.names, key)) | vars(run))

    def write(self, line):
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(line) + "\n")
