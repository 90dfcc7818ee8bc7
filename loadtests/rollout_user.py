"""A Locust user that knows the expected answers."""

from __future__ import annotations

from typing import Any, ClassVar

from exchanges import Exchange, Fault, RequestFailed, WrongAnswer
from gevent import Greenlet, joinall
from gevent.pool import Group
from ledger import Ledger, refuse_other_hosts
from locust import FastHttpUser
from locust.contrib.fasthttp import FastResponse
from locust.env import Environment

__all__ = ["RolloutUser"]


class RolloutUser(FastHttpUser):
    """Sends exchanges of the run's ledger and checks every reply: status, rewards, reasons, order, request id.

    Each request has a separate greenlet: Locust ends a waiting user with an exception, which may arrive when its next
    turn has just begun.
    """

    abstract = True
    max_redirects = 0
    extra_headers: ClassVar[dict[str, str]] = {}

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        refuse_other_hosts(self.host)
        self.ledger: Ledger = environment.ledger
        self._under_way = Group()

    def on_stop(self) -> None:
        self._under_way.join()

    def send(self, most: int = 1) -> None:
        """Send the next exchanges, at most `most`, all at once, and wait for their replies."""
        joinall([self.begin(exchange) for exchange in self.ledger.take(most)])

    def begin(self, exchange: Exchange, due: float | None = None) -> Greenlet:
        """Send a request without waiting; its response time starts at `due` (seconds since 1970), if given."""
        return self._under_way.spawn(self._exchange, exchange, due)

    def _exchange(self, exchange: Exchange, due: float | None) -> None:
        identity = self.ledger.new_id()
        with self.client.request(
            exchange.method,
            exchange.path,
            name=exchange.name,
            data=exchange.body,
            headers={**exchange.headers, **self.extra_headers, "X-Request-ID": identity},
            catch_response=True,
            context={"responses": exchange.responses},
        ) as reply:
            if due is not None:
                count_from(due, reply.request_meta)
            fault = fault_of(reply, exchange, identity)
            if fault is None:
                reply.success()
            else:
                reply.failure(fault)


def fault_of(reply: FastResponse, exchange: Exchange, identity: str) -> Fault | None:
    if reply.status_code == 0:
        return RequestFailed(f"no reply: {type(reply.error).__name__}")
    if reply.headers.get("x-request-id") != identity:
        return WrongAnswer("the reply has the id of another request")
    return exchange.fault(reply.status_code, reply.content)


def count_from(due: float, request: dict[str, Any]) -> None:
    """Add the time by which a request was sent late to the response time of Locust's `request` event."""
    late = 1000 * max(0.0, request["start_time"] - due)
    request["context"]["late"] = late
    request["response_time"] += late
    request["start_time"] = due
