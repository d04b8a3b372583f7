"""A small client of caudal's decision API. It needs only the standard library.

    limits = Caudal("http://127.0.0.1:8080")
    decision = limits.check(remote_address="203.0.113.7", path="/login")
    if not decision.allowed:
        ...  # answer 429, with Retry-After: decision.retry_after_header()
    time.sleep(decision.delay)  # only limits with a queue give one

When caudal does not answer in time the call passes: a limiter must not take down
what it protects. decision.decided says whether anybody decided.
"""

import http.client
import json
import math
import threading
import urllib.parse


class Decision:
    """The answer to one check; body is all of it."""

    def __init__(self, body):
        self.body = body
        self.decided = "error" not in body
        self.allowed = body["allowed"] or not self.decided
        self.delay = body.get("delay", 0)  # seconds to wait for the call's turn
        self.retry_after = body.get("retry_after")  # seconds; None when no wait helps
        self.receipt = body.get("receipt")  # for refund

    def retry_after_header(self):
        """Whole seconds for the header Retry-After; None: leave it out."""
        return None if self.retry_after is None else max(1, math.ceil(self.retry_after))


class Caudal:
    """Asks one caudal. It may be shared by threads: each has its own connection."""

    def __init__(self, url="http://127.0.0.1:8080", timeout=0.05):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError("write the URL as http://127.0.0.1:8080")
        self._host, self._port, self._timeout = parts.hostname, parts.port or 80, timeout
        self._local = threading.local()

    def check(self, cost=None, peek=False, domain=None, attributes=None, **more):
        """May this pass? Attributes are keywords; those with a colon, such as
        header:X-Tenant, go into the dictionary."""
        check = {"attributes": {**(attributes or {}), **more}}
        if cost is not None:
            check["cost"] = cost
        if peek:
            check["peek"] = True
        if domain is not None:
            check["domain"] = domain
        try:
            status, body = self._post("/v1/check", check)
        except (OSError, http.client.HTTPException, ValueError) as e:
            return Decision({"allowed": True, "error": str(e)})
        if status == 400 or status == 413:
            raise ValueError(body.get("detail"))  # our own mistake
        if status != 200:
            return Decision({"allowed": True, "error": body.get("detail", status)})
        return Decision(body)

    def refund(self, receipt, n=None, left=False):
        """Take back what a check was charged. True the first time, False for a
        receipt that was used or has expired."""
        refund = {"receipt": receipt, "left": left}
        if n is not None:
            refund["n"] = n
        status, body = self._post("/v1/refund", refund)
        if status in (409, 410):
            return False
        if status != 200:
            raise ValueError(body.get("detail"))
        return True

    def _post(self, path, value):
        fresh = getattr(self._local, "connection", None) is None
        try:
            return self._exchange(path, value)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            if fresh:
                raise
            # An idle connection that the server has closed meanwhile: it read nothing.
            return self._exchange(path, value)

    def _exchange(self, path, value):
        if getattr(self._local, "connection", None) is None:
            self._local.connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        connection = self._local.connection
        try:
            connection.request("POST", path, json.dumps(value), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except BaseException:
            connection.close()
            self._local.connection = None
            raise
