"""The health check of the image: asks the service that runs beside it, by a name that it answers to."""

import os
import sys
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

port = os.environ.get("TERCET_SERVE_PORT", "8080")
names = os.environ.get("TERCET_SERVE_ALLOW_HOST", "").split()
request = Request(f"http://127.0.0.1:{port}/health", headers={"Host": names[0] if names else "127.0.0.1"})
try:
    with urlopen(request, timeout=8) as answer:
        print(answer.read(2000).decode("utf-8", "replace"))
except HTTPError as error:
    sys.exit(f"{error.code}: {error.read(2000).decode('utf-8', 'replace')}")
except (URLError, OSError) as error:
    sys.exit(f"no answer: {error}")
