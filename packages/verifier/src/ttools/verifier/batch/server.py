"""`python -m ttools.verifier.batch.server OPTIONS`: verifies files whose paths it reads.

What an actor of a cluster starts, whose own process has threads and must not fork. Paths come in
lines on standard input; each is answered by a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ttools.verifier.batch.forks import Forks
from ttools.verifier.options import VerifyOptions


def main() -> None:
    """Serves until nobody asks any more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what candidates print is no answer
    forks = Forks(1, VerifyOptions(**json.loads(sys.argv[1])))
    for line in sys.stdin:
        forks.submit(Path(line.rstrip("\n")))
        _, found = forks.next()
        print(json.dumps(found.as_dict()), file=answers, flush=True)


if __name__ == "__main__":
    main()
