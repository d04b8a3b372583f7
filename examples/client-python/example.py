"""Five logins against a limit of three, and a refund: example.py [URL]"""

import sys

from caudal import Caudal

# Far more patience than a real caller should have: this is not in front of users.
limits = Caudal(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080", timeout=5)
login = {"path": "/api/login", "remote_address": "203.0.113.7"}

first = None
for i in range(1, 6):
    decision = limits.check(**login)
    first = first or decision
    print(f"login {i}:", "allowed" if decision.allowed else f"denied, Retry-After {decision.retry_after_header()}")

print("refund:", limits.refund(first.receipt))
print("refund again:", limits.refund(first.receipt))
print("login 6:", "allowed" if limits.check(**login).allowed else "denied")

try:
    limits.check(remote_address="nowhere")
except ValueError as e:
    print("a mistake:", e)
