"""Any order: whatever is said by whomever at whatever moment, what must always hold does.

``World`` checks the state after each accepted command (see there); this adds that a refused one changes nothing, that
only the current tenure is ever obeyed, and that one business intent is under way at most once.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tenure.errors import TenureError
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.decide.effects import may_apply_again
from tenure.protocol.evidence import EVIDENCE
from tenure.protocol.outside import Effect
from tenure.protocol.settings import CRITICAL, EXTERNAL, LOCAL
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Gate, Purpose, Reason, WaitOn, WorkEnd, WorkKind
from tests.protocol.world import ROOT, Owner, World, body

AGENTS = st.sampled_from(["a", "b", "c"])
TASKS = st.sampled_from([ROOT, ROOT, "t.k"])
NAMES = st.sampled_from(["x", "y"])
EFFECTS = st.sampled_from(["e1", "e2", "e3"])
POLICIES = st.sampled_from([LOCAL, EXTERNAL, CRITICAL])
QUIET = st.sampled_from([True, True, False])
WHO = st.sampled_from([0, 0, 0, 0, 1, 2])
"""Which of all the owners there ever were, newest first."""
SHOWN = [(state, kind) for kind, states in EVIDENCE.items() for state in sorted(states)]
RARELY = st.sampled_from([False, False, False, False, True])
"""For what ends a task: otherwise most sequences would be over before anything has happened."""


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.owners: list[Owner] = []
        self.calls: Counter[str] = Counter()

    # -- saying something -----------------------------------------------------------------------------------------

    def tried(self, act: Callable[[], Any]) -> Any:
        """The answer, or ``None`` when it was refused, in which case nothing has changed."""
        before = self.world.snapshot()
        try:
            return act()
        except TenureError:
            assert self.world.snapshot() == before
            return None

    def owner_says(self, which: int, act: Callable[[Owner], cmd.Receipt]) -> None:
        """One of all the owners there ever were speaks; only the current one may be obeyed."""
        owner = self.owners[-1 - which % len(self.owners)]
        before = self.world.tasks[owner.task_id].tenure
        receipt = self.tried(lambda: act(owner))
        current = before is not None and (before.epoch, before.instance) == (owner.epoch, owner.instance)
        assert receipt is None or receipt.status == "late" or current

    @initialize(
        agents=st.lists(AGENTS, min_size=1, max_size=3, unique=True),
        broadcast=st.booleans(),
        lost=st.sampled_from(["same", "return", "person"]),
        unacknowledged=st.sampled_from(["return", "escalate"]),
        failed=st.sampled_from(["escalate", "fail"]),
        unanswered=st.sampled_from(["fail", "cancel"]),
        attempts=st.integers(1, 3),
    )
    def begin(self, agents: list[str], *, broadcast: bool, attempts: int, **policies: str) -> None:
        names = {
            "lost": "on_lost",
            "unacknowledged": "on_ack_timeout",
            "failed": "on_failure",
            "unanswered": "on_unanswered",
        }
        chosen = {names[name]: value for name, value in policies.items()}
        self.world = World(attempts=attempts, takeovers=3, open_items=4, unread=3, transfers=6, **chosen)
        self.world.submit(*agents, broadcast=broadcast)

    # -- offers ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: any(task.offer for task in self.world.tasks.values()))
    @rule(n=st.integers(1, 2))
    def take(self, n: int) -> None:
        """Whoever is asked acknowledges."""
        for name, task in self.world.tasks.items():
            if task.offer is not None:
                agent = task.offer.open_to[-1].agent
                owner = self.tried(partial(self.world.ack, agent, f"{agent}{n}", name))
                if owner is not None and owner.receipt.status == "done":
                    self.owners.append(owner)
                return

    @rule(task=TASKS, agent=AGENTS, n=st.integers(1, 2), stale=st.integers(0, 5))
    def acknowledge(self, task: str, agent: str, n: int, stale: int) -> None:
        if task not in self.world.tasks:
            return
        epoch = self.world.tasks[task].epoch - (stale == 0)
        owner = self.tried(lambda: self.world.ack(agent, f"{agent}{n}", task, epoch=epoch))
        if owner is not None and owner.receipt.status == "done":
            self.owners.append(owner)

    @rule(task=TASKS, agent=AGENTS, n=st.integers(1, 2))
    def claim(self, task: str, agent: str, n: int) -> None:
        if task in self.world.tasks:
            self.tried(lambda: self.world.claim(agent, f"{agent}{n}", task))

    @precondition(lambda self: any(task.offer for task in self.world.tasks.values()))
    @rule(task=TASKS, agent=AGENTS, reason=st.sampled_from([Reason.DECLINED, Reason.START_FAILED]))
    def decline(self, task: str, agent: str, reason: Reason) -> None:
        if task in self.world.tasks:
            self.tried(lambda: self.world.decline(agent, reason, task))

    @rule(task=TASKS, early=st.sampled_from([True, True, False]))
    def expire(self, task: str, *, early: bool) -> None:
        current = self.world.tasks.get(task)
        if current is not None and not current.phase.ended:
            self.tried(lambda: self.world.expire(task, after=self.world.now - 1 if early else 0))

    # -- owners ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: bool(self.owners))
    @rule(which=WHO, consumed=st.integers(0, 3), document=st.booleans())
    def turn(self, which: int, consumed: int, *, document: bool) -> None:
        self.owner_says(which, lambda owner: owner.see(consumed))
        self.owner_says(which, lambda owner: owner.advance(consumed, document="x" if document else None))

    @precondition(lambda self: bool(self.owners))
    @rule(which=WHO, name=NAMES, policy=POLICIES, kind=st.sampled_from(list(WorkKind)))
    def work(self, which: int, name: str, policy: Any, kind: WorkKind) -> None:
        self.owner_says(which, lambda owner: owner.work(name, policy, kind))

    @precondition(lambda self: bool(self.owners))
    @rule(which=WHO, name=NAMES, close=st.booleans())
    def route(self, which: int, name: str, *, close: bool) -> None:
        self.owner_says(which, lambda owner: owner.close(name) if close else owner.route(name))

    @precondition(lambda self: bool(self.owners))
    @rule(which=WHO, name=EFFECTS, key=NAMES, policy=POLICIES, window=st.sampled_from([0, 60_000]))
    def intend(self, which: int, name: str, key: str, policy: Any, window: int) -> None:
        self.owner_says(
            which, lambda owner: owner.intend(name, key, policy, idempotent_ms=window, in_flight_ms=window and 1)
        )

    @precondition(lambda self: bool(self.owners))
    @rule(which=WHO, name=EFFECTS, purpose=st.sampled_from(list(Purpose)))
    def call(self, which: int, name: str, purpose: Purpose) -> None:
        before = self.world.effects.get(name)
        if before is None:
            return
        self.owner_says(which, lambda owner: owner.apply(name, purpose))
        self._one_invocation(before, purpose)

    def _one_invocation(self, before: Effect, purpose: Purpose) -> None:
        after = self.world.effects[before.effect_id]
        if after.attempt.n > before.attempt.n and purpose is Purpose.APPLY:
            assert may_apply_again(before, self.world.now)

    @precondition(lambda self: bool(self.owners))
    @rule(which=WHO)
    def delegate(self, which: int) -> None:
        self.owner_says(which, lambda owner: owner.delegate("t.k", "c", "b"))

    @precondition(lambda self: bool(self.owners))
    @rule(which=WHO, to=AGENTS, gate=st.sampled_from(list(Gate)), quiet=QUIET, broadcast=st.booleans())
    def transfer(self, which: int, to: str, gate: Gate, *, quiet: bool, broadcast: bool) -> None:
        def act(owner: Owner) -> cmd.Receipt:
            hop = self.world.tasks[owner.task_id].hop_count + 1
            return owner.transfer(to, "c", h=f"h{hop}", gate=gate, quiet=quiet, broadcast=broadcast)

        self.owner_says(which, act)

    @precondition(lambda self: bool(self.owners))
    @rule(
        which=WHO,
        how=st.sampled_from(["return", "return", "escalate", "stop", "complete", "fail"]),
        quiet=QUIET,
    )
    def decide(self, which: int, how: str, *, quiet: bool) -> None:
        ways: dict[str, Callable[[Owner], cmd.Receipt]] = {
            "complete": lambda owner: owner.complete(quiet=quiet),
            "return": lambda owner: owner.give_back(quiet=quiet),
            "fail": lambda owner: owner.fail(quiet=quiet),
            "stop": lambda owner: owner.stop(quiet=quiet),
            "escalate": lambda owner: owner.escalate(),
        }
        self.owner_says(which, ways[how])

    @precondition(lambda self: bool(self.owners))
    @rule(which=WHO, on=st.sampled_from(list(WaitOn)))
    def wait(self, which: int, on: WaitOn) -> None:
        question = "q1" if on is WaitOn.ANSWER else ""
        self.owner_says(which, lambda owner: owner.wait(on, question_id=question))

    @precondition(lambda self: bool(self.owners))
    @rule(which=WHO, seen=st.lists(NAMES, unique=True), unseen=st.integers(0, 1), retired=st.booleans())
    def release(self, which: int, seen: list[str], unseen: int, *, retired: bool) -> None:
        self.owner_says(which, lambda owner: owner.release(*seen, unseen=unseen, routes_retired=retired))

    # -- everybody ------------------------------------------------------------------------------------------------

    @rule(task=TASKS)
    def send(self, task: str) -> None:
        self.tried(lambda: self.world.send(task_id=task))

    @precondition(lambda self: any(task.question for task in self.world.tasks.values()))
    @rule(task=TASKS, action=st.sampled_from(["resume", "resume", "reassign", "abort"]))
    def answer(self, task: str, action: str) -> None:
        current = self.world.tasks.get(task)
        if current is not None and current.question is not None:
            question = current.question.question_id
            self.tried(lambda: self.world.answer(question, action=action, agent="b", task_id=task, body=body("so")))

    @rule(task=TASKS, really=RARELY)
    def cancel(self, task: str, *, really: bool) -> None:
        if really:
            self.tried(lambda: self.world.cancel(task))

    @precondition(lambda self: bool(self.world.tasks and self.world.task.hops))
    @rule(hop=st.integers(1, 3), really=RARELY)
    def reverse(self, hop: int, *, really: bool) -> None:
        if really:
            self.tried(lambda: self.world.reverse(f"h{hop}"))

    @precondition(lambda self: bool(self.owners))
    @rule(task=TASKS, agent=AGENTS, n=st.integers(1, 2))
    def die(self, task: str, agent: str, n: int) -> None:
        self.tried(lambda: self.world.dies(f"{agent}{n}", task))

    @precondition(lambda self: any(task.works for task in self.world.tasks.values()))
    @rule(name=NAMES, agent=AGENTS, how=st.sampled_from(list(WorkEnd)))
    def end_work(self, name: str, agent: str, how: WorkEnd) -> None:
        self.tried(lambda: self.world.end_work(name, f"{agent}1", how))
        self.tried(lambda: self.world.cancel_work(name, delivered=True))

    @precondition(lambda self: bool(self.world.effects))
    @rule(name=EFFECTS, purpose=st.sampled_from(list(Purpose)))
    def reconcile(self, name: str, purpose: Purpose) -> None:
        before = self.world.effects.get(name)
        if before is not None:
            self.tried(lambda: self.world.reconcile(name, purpose))
            self._one_invocation(before, purpose)

    @precondition(lambda self: bool(self.world.effects))
    @rule(
        name=EFFECTS,
        shown=st.sampled_from(SHOWN),
        older=st.sampled_from([0, 0, 0, 1]),
    )
    def outcome(self, name: str, shown: tuple[EffectState, EvidenceKind], older: int) -> None:
        effect = self.world.effects.get(name)
        if effect is not None:
            attempt = effect.attempt.n - older
            self.tried(lambda: self.world.outcome(name, *shown, attempt=attempt))

    @precondition(lambda self: bool(self.world.effects))
    @rule(name=EFFECTS)
    def attest(self, name: str) -> None:
        if name in self.world.effects:
            self.tried(lambda: self.world.attest(name))

    @rule(ms=st.sampled_from([10, 20_000, 700_000]))
    def time_passes(self, ms: int) -> None:
        self.world.now += ms

    # -- what holds -----------------------------------------------------------------------------------------------

    @invariant()
    def one_intent_is_open_once(self) -> None:
        opened = Counter(effect.intent for effect in self.world.effects.values() if not effect.state.settled)
        reopened = {e.intent for e in self.world.effects.values() if e.state is EffectState.DISPUTED}
        assert all(n == 1 or intent in reopened for intent, n in opened.items())

    @invariant()
    def nothing_is_claimed_of_work_that_was_not_seen_to_end(self) -> None:
        for events in self.world.history.values():
            running: set[str] = set()
            begun: set[str] = set()
            for event in events:
                if isinstance(event, ev.TenureGranted):
                    begun = set()
                elif isinstance(event, ev.WorkStarted):
                    running.add(event.work_id)
                    begun.add(event.work_id)
                elif isinstance(event, ev.WorkStopped):
                    running.discard(event.work_id)
                elif isinstance(event, ev.ExecutionStopped):
                    assert not running & begun

    @invariant()
    def input_is_consumed_once_and_in_order(self) -> None:
        for task in self.world.tasks.values():
            assert 0 <= task.consumed <= task.seen <= task.received


EXAMPLES = settings().max_examples  # of the profile: the default run is short, .ci/full looks further
AnyOrder.TestCase.settings = settings(stateful_step_count=40, max_examples=EXAMPLES)
TestAnyOrder = pytest.mark.timeout(300)(AnyOrder.TestCase)
