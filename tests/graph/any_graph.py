"""Any graph that a file can hold, with a value at every field; right or wrong is for the checks to say."""

from hypothesis import strategies as st

from tenure.graph import (
    AgentKind,
    AgentNode,
    Budgets,
    Deadlines,
    Edge,
    EdgeKind,
    Fallback,
    Graph,
    Oscillation,
    PolicyNode,
    Termination,
    Tool,
    Turns,
)
from tenure.protocol.vocabulary import Gate

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
LISTS = st.lists(TEXTS, max_size=5).map(tuple)
WHOLE = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.none() | WHOLE
AGENTS = st.builds(
    AgentNode,
    kind=st.sampled_from(AgentKind),
    description=TEXTS,
    skills=LISTS,
    accepts=TEXTS,
    tools=st.none() | LISTS,
)
EDGES = st.builds(
    Edge,
    source=TEXTS,
    target=TEXTS,
    kind=st.sampled_from(EdgeKind),
    because=TEXTS,
    description=TEXTS,
    trigger=TEXTS,
    payload=TEXTS,
    gate=st.none() | st.sampled_from(Gate),
    pickup_ms=WHOLE,
    ack_ms=WHOLE,
    tools=st.none() | LISTS,
    termination=st.none() | st.lists(st.sampled_from(Termination), max_size=3).map(tuple),
)
NUMBERS = WHOLE | st.floats(allow_nan=False, allow_infinity=False)
TOOLS = st.builds(Tool, policy=TEXTS, approval=st.booleans(), limits=st.dictionaries(TEXTS, NUMBERS, max_size=2))
POLICIES = st.builds(PolicyNode, grace_ms=WHOLE, booked=st.booleans(), gate=st.sampled_from(Gate))
FALLBACKS = st.builds(
    Fallback,
    person=TEXTS,
    supervisor=TEXTS,
    failure=st.sampled_from([None, "escalate", "fail"]),
    lost=st.sampled_from([None, "same", "return", "person"]),
    ack_timeout=st.sampled_from([None, "return", "escalate"]),
    unanswered=st.sampled_from([None, "fail", "cancel"]),
)
GRAPHS = st.builds(
    Graph,
    team=TEXTS,
    entry=TEXTS,
    agents=st.dictionaries(TEXTS, AGENTS, max_size=3),
    edges=st.lists(EDGES, max_size=3).map(tuple),
    tools=st.dictionaries(TEXTS, TOOLS, max_size=2),
    policies=st.dictionaries(TEXTS, POLICIES, max_size=2),
    budgets=st.builds(Budgets, **dict.fromkeys(Budgets.__struct_fields__, COUNTS)),
    turns=st.builds(Turns, nudges=COUNTS, calls_ms=COUNTS),
    oscillation=st.builds(Oscillation, repeats=COUNTS),
    fallback=FALLBACKS,
    deadlines=st.builds(Deadlines, **dict.fromkeys(Deadlines.__struct_fields__, COUNTS)),
)
