"""One offer, from its pick-up to the end of the tenure that it may become."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from tenure.errors import Fenced, Refused, TenureError
from tenure.ledger import OpenOffer
from tenure.protocol import commands as cmd
from tenure.protocol.payload import Payload
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import OfferKind, Reason, WorkEnd
from tenure.runtime.background import background
from tenure.runtime.clock import uptime_ms
from tenure.runtime.content import from_plain, to_body, words_of
from tenure.runtime.hold import Hold, execute_patiently
from tenure.runtime.housekeeper import Housekeeper
from tenure.runtime.ids import jitter, new_id
from tenure.runtime.offered import Offered
from tenure.runtime.payloads import books_of, decode_payload
from tenure.runtime.running import Running, moved_on
from tenure.runtime.tenure import Tenure

if TYPE_CHECKING:
    from tenure.runtime.team import Team

_LOG = logging.getLogger("tenure.worker")

POLL = 1.0
ACK_SECONDS = 10


class Serving:
    """One offer at one worker."""

    def __init__(self, team: Team, house: Housekeeper, instance: str, offer: OpenOffer) -> None:
        """Nothing is claimed yet."""
        self._team = team
        self._ledger = team.ledger
        self._house = house
        self._instance = instance
        self._offer = offer
        self._agent = team.agents[offer.agent]
        self._hold: Hold | None = None
        self._acknowledged = False
        self._began = False

    def let_go(self) -> bool:
        """Stop acting as the owner: the worker ends. ``False`` when nothing is owned yet."""
        if self._hold is None:
            return False
        self._hold.lose(Fenced("lease_lost", "The worker has stopped.", task_id=self._hold.task_id))
        return True

    async def run(self) -> None:
        """Pick up, acknowledge, run, retire. That somebody else was faster is no error."""
        try:
            granted = await self._acknowledge()
            if granted is not None:
                await self._own(*granted)
        except (Fenced, Refused) as error:
            _LOG.debug("%s of %s: %s", self._offer.kind, self._offer.task_id, error)
        except TenureError as error:
            _LOG.warning("%s of %s: %s", self._offer.kind, self._offer.task_id, error)
        except Exception:  # noqa: BLE001 - a fault of ours; the offer stays open, and is not tried at once again
            _LOG.exception("%s of %s", self._offer.kind, self._offer.task_id)
            await asyncio.sleep(jitter(POLL))
        if self._acknowledged and not self._began:
            _ = background(self._never_began(), name=f"never-began:{self._offer.task_id}")

    # --- until the grant ----------------------------------------------------------------------------------------

    async def _acknowledge(self) -> tuple[Hold, Task, Any, Payload] | None:
        """Read the sender's part, ask the agent, confirm the digest. One commit when no hook has to be asked."""
        payload = decode_payload(await self._ledger.body(self._offer.root_id, self._offer.payload))
        try:
            given = from_plain(await self._given(payload), self._agent.accepts)
        except Refused as error:
            await self._decline(Reason.CAPABILITY, str(error))
            return None
        if self._agent.on_offer is not None and not await self._asked(given, payload):
            return None
        asked_at = uptime_ms()
        self._acknowledged = True  # also when no answer comes: it may have been granted
        receipt = await self._say(cmd.Acknowledge, digest=self._offer.payload)
        if receipt.status == "gate" and not await self._gate_met():
            return None
        task = await self._ledger.task(self._offer.task_id)
        if task is None or task.tenure is None or task.tenure.instance != self._instance:
            return None
        if receipt.status == "gate":
            # The lease began with the grant, not when it was noticed.
            now = await asyncio.to_thread(self._ledger.now_blocking)
            asked_at = uptime_ms() - max(0, now - task.tenure.since)
        graph = await self._team.version(task.graph)
        hold = Hold(self._ledger, task, task.tenure, asked_at=asked_at, graph=graph, providers=self._team.providers)
        return hold, task, given, payload

    async def _given(self, payload: Payload) -> Any:
        """The agent's input: the sender's data, or what the agent had been given before when the task comes back."""
        if self._offer.kind in (OfferKind.START, OfferKind.TRANSFER):
            return payload.data
        task = await self._ledger.task(self._offer.task_id)
        if task is None or task.given == self._offer.payload:
            return payload.data
        return decode_payload(await self._ledger.body(self._offer.root_id, task.given)).data

    async def _asked(self, given: Any, payload: Payload) -> bool:
        """Claim the offer while the agent's hook decides on it."""
        await self._say(cmd.Claim)
        hook = self._agent.on_offer
        if hook is None:
            return True
        offered = Offered(
            task_id=self._offer.task_id, agent=self._agent.name, kind=self._offer.kind, given=given, payload=payload
        )
        try:
            async with asyncio.timeout(await self._ack_seconds()):
                refusal = await hook(offered)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the hook raises, the agent has not started
            await self._decline(Reason.START_FAILED, words_of(error))
            return False
        if refusal:
            await self._decline(Reason.DECLINED, refusal)
        return not refusal

    async def _ack_seconds(self) -> float:
        """How long the hook may take: a claim lapses that is not acknowledged in time."""
        task = await self._ledger.task(self._offer.task_id)
        return (task.settings if task is not None else self._team.settings).ack_ms / 1000

    async def _decline(self, reason: Reason, words: str) -> None:
        await self._say(cmd.Decline, reason=reason, detail=to_body({"reason": words}))

    async def _gate_met(self) -> bool:
        """Wait until the ledger grants, or takes the acknowledged offer away."""
        while True:
            position = await self._ledger.wait(0, 0)
            task = await self._ledger.task(self._offer.task_id)
            if task is None or task.offer is None or task.epoch != self._offer.epoch:
                return task is not None and task.tenure is not None
            await self._ledger.wait(position, POLL)

    async def _say(self, kind: Any, **fields: Any) -> cmd.Receipt:
        command = kind(
            command_id=new_id("c"),
            root_id=self._offer.root_id,
            task_id=self._offer.task_id,
            epoch=self._offer.epoch,
            agent=self._agent.name,
            instance=self._instance,
            **fields,
        )
        return await execute_patiently(self._ledger, command, seconds=ACK_SECONDS)

    # --- the tenure ---------------------------------------------------------------------------------------------

    async def _own(self, hold: Hold, task: Task, given: Any, payload: Payload) -> None:
        self._hold = hold
        self._house.add(hold)
        try:
            document = await hold.books.body(task.root_id, task.document) if task.document else None
            own: Tenure[Any] = Tenure(
                hold,
                task,
                given=given,
                payload=payload,
                in_flight=await books_of(hold.books, task, payload),
                state=document.value() if document is not None else None,
            )
            self._began = True
            await Running(self._team, own).run()
        finally:
            self._house.remove(hold)

    async def _never_began(self) -> None:
        """Report the end of a handler whose grant was noticed too late, or not at all.

        The ledger has its tenure as lost and looks for a handler that never ran. Without a grant to this instance it
        knows of no such work, and nothing changes.
        """
        epoch = self._offer.epoch + 1
        await moved_on(self._ledger, self._offer.task_id, epoch)
        command = cmd.EndWork(
            command_id=new_id("c"),
            root_id=self._offer.root_id,
            task_id=self._offer.task_id,
            work_id=f"handler:{epoch}",
            instance=self._instance,
            how=WorkEnd.CANCELLED,
        )
        await execute_patiently(self._ledger, command, seconds=ACK_SECONDS)
