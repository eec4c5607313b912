"""The retail rules as pure functions: given the books and a write, what changes or why it is refused.

Orders, users and products are plain dicts of the shape of ``data.json`` (the shape of the ``db.json`` of the public
tau2 retail benchmark). Nothing here is mutated and nothing is read but the arguments, so that the service and the
check of what the service should have done can share one set of rules without sharing any state.

Amounts are dollars in the data and whole cents in every calculation: sums of floats would drift.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

Record = dict[str, Any]
"""One order, user or product as it stands in the data file."""


@dataclass(frozen=True)
class Books:
    """What the rules may read: ``id -> record`` for each kind. Any mapping will do, an overlay included."""

    products: Mapping[str, Record]
    users: Mapping[str, Record]
    orders: Mapping[str, Record]


class Changes(msgspec.Struct, frozen=True):
    """The orders and users that differ from the data, in its shape: ``id -> record``."""

    orders: dict[str, Record] = {}
    users: dict[str, Record] = {}


@dataclass(frozen=True)
class Applied:
    """A write that the rules allow: the record that it is about, and every record that it changes."""

    result: Record
    orders: dict[str, Record] = field(default_factory=dict)
    users: dict[str, Record] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """A write that the rules forbid. Nothing changes."""

    reason: str


class BadArgumentsError(ValueError):
    """The operation is unknown or its arguments do not have the right shape: a mistake of the caller, not a refusal."""


class _Refusal(Exception):
    """Ends a rule early; never leaves this module, `apply` turns it into `Refused`."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of one operation; fields are those of the tool of that name."""


class CancelOrder(Arguments, frozen=True):
    """``cancel_pending_order``."""

    order_id: str
    reason: str


class ReturnItems(Arguments, frozen=True):
    """``return_delivered_order_items``."""

    order_id: str
    item_ids: list[str]
    payment_method_id: str


class ReplaceItems(Arguments, frozen=True):
    """``exchange_delivered_order_items`` and ``modify_pending_order_items``: pairs by position."""

    order_id: str
    item_ids: list[str]
    new_item_ids: list[str]
    payment_method_id: str


class ChangePayment(Arguments, frozen=True):
    """``modify_pending_order_payment``."""

    order_id: str
    payment_method_id: str


class _Address(Arguments, frozen=True):
    address1: str
    address2: str
    city: str
    state: str
    country: str
    zip: str

    def record(self) -> Record:
        """Return the address as it is stored in orders and users."""
        return {name: getattr(self, name) for name in _Address.__struct_fields__}


class ShipTo(_Address, frozen=True, kw_only=True):
    """``modify_pending_order_address``."""

    order_id: str


class LiveAt(_Address, frozen=True, kw_only=True):
    """``modify_user_address``."""

    user_id: str


CANCEL_REASONS = ("no longer needed", "ordered by mistake")
ITEM_MODIFIED = "pending (item modified)"


def apply(books: Books, operation: str, arguments: Mapping[str, Any]) -> Applied | Refused:
    """Judge one write against `books` and say what it changes; `books` themselves stay as they are.

    Raises:
        BadArgumentsError: no such operation, or arguments of another shape.
    """
    rule, parsed = _parse(operation, arguments)
    try:
        return rule(books, parsed)
    except _Refusal as refusal:
        return Refused(str(refusal))


def check_arguments(operation: str, arguments: Mapping[str, Any]) -> None:
    """Raise `BadArgumentsError` unless `arguments` have the shape that `operation` takes."""
    _parse(operation, arguments)


def digest(operation: str, arguments: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of a write's meaning: equal for equal arguments in any order of fields."""
    body = msgspec.json.encode([operation, dict(arguments)], order="deterministic")
    return hashlib.sha256(body).hexdigest()


def cents(dollars: float) -> int:
    """Return an amount of the data file as whole cents."""
    return round(dollars * 100)


def dollars(amount_cents: int) -> float:
    """Return whole cents as the data file writes them."""
    return amount_cents / 100


def _cancel(books: Books, wanted: CancelOrder) -> Applied:
    order = _order(books, wanted.order_id)
    if order["status"] != "pending":
        raise _Refusal(_status_reason(order, "only a pending order can be cancelled"))
    if wanted.reason not in CANCEL_REASONS:
        raise _Refusal(f"the reason must be one of {', '.join(map(repr, CANCEL_REASONS))}")
    user = _user(books, order["user_id"])
    credited = False
    for entry in list(order["payment_history"]):
        order["payment_history"].append({**entry, "transaction_type": "refund"})
        credited |= _credit(_payment_method(user, entry["payment_method_id"]), cents(entry["amount"]))
    order["status"] = "cancelled"
    order["cancel_reason"] = wanted.reason
    return _changed(order, user if credited else None)


def _return(books: Books, wanted: ReturnItems) -> Applied:
    order = _order(books, wanted.order_id)
    if order["status"] != "delivered":
        raise _Refusal(_status_reason(order, "only a delivered order can be returned"))
    method = _payment_method(_user(books, order["user_id"]), wanted.payment_method_id)
    original = order["payment_history"][0]["payment_method_id"]
    if method["source"] != "gift_card" and wanted.payment_method_id != original:
        raise _Refusal("the refund goes to the original payment method or to a gift card of the customer")
    _check_held(order, wanted.item_ids)
    order["status"] = "return requested"
    order["return_items"] = sorted(wanted.item_ids)
    order["return_payment_method_id"] = wanted.payment_method_id
    return _changed(order, None)


def _exchange(books: Books, wanted: ReplaceItems) -> Applied:
    order = _order(books, wanted.order_id)
    if order["status"] != "delivered":
        raise _Refusal(_status_reason(order, "only items of a delivered order can be exchanged"))
    difference = sum(cents(new["price"]) - cents(old["price"]) for old, new in _pairs(books, order, wanted))
    _check_covers(_payment_method(_user(books, order["user_id"]), wanted.payment_method_id), difference)
    order["status"] = "exchange requested"
    order["exchange_items"] = sorted(wanted.item_ids)
    order["exchange_new_items"] = sorted(wanted.new_item_ids)
    order["exchange_payment_method_id"] = wanted.payment_method_id
    order["exchange_price_difference"] = dollars(difference)
    return _changed(order, None)


def _modify_items(books: Books, wanted: ReplaceItems) -> Applied:
    order = _order(books, wanted.order_id)
    if order["status"] != "pending":
        raise _Refusal(_status_reason(order, "items can be changed once, while the order is pending"))
    pairs = _pairs(books, order, wanted)
    difference = sum(cents(new["price"]) - cents(old["price"]) for old, new in pairs)
    user = _user(books, order["user_id"])
    method = _payment_method(user, wanted.payment_method_id)
    _check_covers(method, difference)
    kind = "payment" if difference > 0 else "refund"
    order["payment_history"].append(_entry(kind, abs(difference), wanted.payment_method_id))
    for old, new in pairs:
        old.update(item_id=new["item_id"], price=new["price"], options=dict(new["options"]))
    order["status"] = ITEM_MODIFIED
    return _changed(order, user if _credit(method, -difference) else None)


def _modify_address(books: Books, wanted: ShipTo) -> Applied:
    order = _order(books, wanted.order_id)
    _check_open(order)
    order["address"] = wanted.record()
    return _changed(order, None)


def _modify_payment(books: Books, wanted: ChangePayment) -> Applied:
    order = _order(books, wanted.order_id)
    _check_open(order)
    user = _user(books, order["user_id"])
    method = _payment_method(user, wanted.payment_method_id)
    history = order["payment_history"]
    if len(history) != 1 or history[0]["transaction_type"] != "payment":
        raise _Refusal("the payment method can be changed only while the order has exactly one payment")
    former = _payment_method(user, history[0]["payment_method_id"])
    if former["id"] == method["id"]:
        raise _Refusal("the new payment method is the one that the order has already")
    amount = cents(history[0]["amount"])
    _check_covers(method, amount)
    history.append(_entry("payment", amount, method["id"]))
    history.append(_entry("refund", amount, former["id"]))
    charged, credited = _credit(method, -amount), _credit(former, amount)
    return _changed(order, user if charged or credited else None)


def _modify_user(books: Books, wanted: LiveAt) -> Applied:
    user = _user(books, wanted.user_id)
    user["address"] = wanted.record()
    return Applied(user, users={user["user_id"]: user})


Rule = Callable[[Books, Any], Applied]

OPERATIONS: Mapping[str, tuple[type[Arguments], Rule]] = {
    "cancel_pending_order": (CancelOrder, _cancel),
    "exchange_delivered_order_items": (ReplaceItems, _exchange),
    "modify_pending_order_address": (ShipTo, _modify_address),
    "modify_pending_order_items": (ReplaceItems, _modify_items),
    "modify_pending_order_payment": (ChangePayment, _modify_payment),
    "modify_user_address": (LiveAt, _modify_user),
    "return_delivered_order_items": (ReturnItems, _return),
}
"""Every write that the service knows: name -> (shape of its arguments, its rule)."""


def _parse(operation: str, arguments: Mapping[str, Any]) -> tuple[Rule, Arguments]:
    if operation not in OPERATIONS:
        raise BadArgumentsError(f"no write is called {operation!r}; there are {', '.join(OPERATIONS)}")
    shape, rule = OPERATIONS[operation]
    try:
        return rule, msgspec.convert(arguments, shape)
    except msgspec.ValidationError as error:
        raise BadArgumentsError(f"{operation}: {error}") from error


def _order(books: Books, order_id: str) -> Record:
    if order_id not in books.orders:
        raise _Refusal(f"there is no order {order_id}")
    return copy.deepcopy(books.orders[order_id])


def _user(books: Books, user_id: str) -> Record:
    if user_id not in books.users:
        raise _Refusal(f"there is no user {user_id}")
    return copy.deepcopy(books.users[user_id])


def _payment_method(user: Record, payment_method_id: str) -> Record:
    if payment_method_id not in user["payment_methods"]:
        raise _Refusal(f"{payment_method_id} is not a payment method of {user['user_id']}")
    method: Record = user["payment_methods"][payment_method_id]
    return method


def _changed(order: Record, user: Record | None) -> Applied:
    users = {user["user_id"]: user} if user else {}
    return Applied(order, orders={order["order_id"]: order}, users=users)


def _entry(kind: str, amount_cents: int, payment_method_id: str) -> Record:
    return {
        "transaction_type": kind,
        "amount": dollars(amount_cents),
        "payment_method_id": payment_method_id,
    }


def _credit(method: Record, amount_cents: int) -> bool:
    """Move the balance of a gift card; other methods settle outside these books. Says whether anything moved."""
    if method["source"] != "gift_card" or amount_cents == 0:
        return False
    method["balance"] = dollars(cents(method["balance"]) + amount_cents)
    return True


def _check_covers(method: Record, amount_cents: int) -> None:
    if method["source"] == "gift_card" and cents(method["balance"]) < amount_cents:
        raise _Refusal(f"the balance of {method['id']} does not cover {dollars(amount_cents):.2f}")


def _check_open(order: Record) -> None:
    # Address and payment may still change after the items did, as in the benchmark; cancelling may not.
    if order["status"] not in ("pending", ITEM_MODIFIED):
        raise _Refusal(_status_reason(order, "only a pending order can be modified"))


def _check_held(order: Record, item_ids: list[str]) -> None:
    if not item_ids:
        raise _Refusal("no item is named")
    missing = Counter(item_ids) - Counter(item["item_id"] for item in order["items"])
    if missing:
        raise _Refusal(f"{order['order_id']} does not hold {', '.join(sorted(missing))} as often as named")


def _pairs(books: Books, order: Record, wanted: ReplaceItems) -> list[tuple[Record, Record]]:
    """Return (item line of the order, variant that replaces it), each line at most once."""
    _check_held(order, wanted.item_ids)
    if len(wanted.item_ids) != len(wanted.new_item_ids):
        raise _Refusal("each item needs exactly one new item")
    left = list(order["items"])
    pairs = []
    for item_id, new_item_id in zip(wanted.item_ids, wanted.new_item_ids, strict=True):
        line = next(item for item in left if item["item_id"] == item_id)
        # By identity: two lines of one order may be equal, and each is replaced by its own variant.
        left = [item for item in left if item is not line]
        pairs.append((line, _variant(books, line, new_item_id)))
    return pairs


def _variant(books: Books, line: Record, new_item_id: str) -> Record:
    variant: Record | None = books.products[line["product_id"]]["variants"].get(new_item_id)
    if variant is None:
        raise _Refusal(f"{new_item_id} is not a variant of {line['name']}")
    if new_item_id == line["item_id"]:
        raise _Refusal(f"{new_item_id} is the item that the order has already")
    if not variant["available"]:
        raise _Refusal(f"{new_item_id} is not available")
    return variant


def _status_reason(order: Record, rule: str) -> str:
    return f"order {order['order_id']} is {order['status']!r}: {rule}"
