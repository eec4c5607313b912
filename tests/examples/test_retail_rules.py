"""The retail rules, and what they make of the tickets of the example."""

import json
from pathlib import Path
from typing import Any

import pytest

from examples.retail import rules
from examples.retail.expected import compare, expect, load_data, load_tickets, summary
from examples.retail.rules import Changes

HERE = Path(rules.__file__).parent
BOOKS = load_data(HERE / "data.json")
TICKETS = load_tickets(HERE / "tickets.jsonl")


def test_the_tickets_give_the_expected_numbers() -> None:
    counted = summary(BOOKS, TICKETS)
    refusals = counted.pop("refusals")
    assert counted == {
        "tickets": 20,
        "actions": 81,
        "writes": 22,
        "applied": 21,
        "refused": 1,
        "end_with_person": 2,
    }
    assert [(found["ticket"], found["reason"]) for found in refusals] == [
        ("R11", "the balance of gift-01 does not cover 109.01")
    ]
    # On one copy of the data, one after the other, they give the same: no ticket is in another one's way.
    together = expect(BOOKS, [call for ticket in TICKETS for call in ticket.writes])
    assert (len(together.applied), len(together.refused)) == (21, 1)


def test_a_difference_is_found_and_named() -> None:
    wanted = expect(BOOKS, TICKETS[8].writes).changes  # R09: an order and the balance of a gift card
    assert compare(wanted, wanted) == []
    order = wanted.orders["order-1017"]
    assert compare(Changes({}, wanted.users), wanted) == ["orders/order-1017: missing"]
    assert compare(wanted, Changes({}, wanted.users)) == ["orders/order-1017: should not have changed"]
    wrong = Changes({"order-1017": {**order, "status": "pending"}}, wanted.users)
    assert compare(wrong, wanted) == ["orders/order-1017: status is 'pending', should be 'cancelled'"]


REFUSALS = [
    ("cancel_pending_order", {"order_id": "order-1", "reason": "no longer needed"}, "there is no order"),
    ("cancel_pending_order", {"order_id": "order-1001", "reason": "bored"}, "the reason must be"),
    ("cancel_pending_order", {"order_id": "order-1003", "reason": "no longer needed"}, "'delivered'"),
    ("return_delivered_order_items", ["order-1001", ["mug-blue-s"], None, "card-01"], "only a delivered order"),
    ("return_delivered_order_items", ["order-1016", ["phones-air"], None, "card-08b"], "original payment method"),
    ("return_delivered_order_items", ["order-1016", ["phones-air"], None, "card-01"], "not a payment method"),
    ("return_delivered_order_items", ["order-1016", ["phones-air"] * 2, None, "card-08"], "as often"),
    ("return_delivered_order_items", ["order-1016", [], None, "card-08"], "no item"),
    ("exchange_delivered_order_items", ["order-1009", ["pack-40"], ["pack-30"], "card-05"], "of a delivered order"),
    ("exchange_delivered_order_items", ["order-1005", ["pack-20"], ["pack-30"] * 2, "paypal-03"], "exactly one"),
    ("exchange_delivered_order_items", ["order-1005", ["pack-20"], ["kettle-1l"], "paypal-03"], "not a variant"),
    ("exchange_delivered_order_items", ["order-1005", ["pack-20"], ["pack-20"], "paypal-03"], "has already"),
    ("exchange_delivered_order_items", ["order-1003", ["mug-red-s"], ["mug-red-l"], "card-02"], "not available"),
    ("modify_pending_order_items", ["order-1012", ["mug-blue-s"] * 3, ["mug-red-s"] * 3, "card-06"], "as often"),
    ("modify_pending_order_items", ["order-1008", ["kettle-17l-glass"], ["kettle-1l"], "card-04"], "'delivered'"),
    ("modify_pending_order_payment", {"order_id": "order-1014", "payment_method_id": "gift-07"}, "does not cover"),
    ("modify_pending_order_payment", {"order_id": "order-1014", "payment_method_id": "card-07"}, "has already"),
    ("modify_pending_order_payment", {"order_id": "order-1013", "payment_method_id": "gift-07"}, "only a pending"),
    ("modify_user_address", ["customer-99"], "there is no user"),
]


@pytest.mark.parametrize(("operation", "given", "reason"), REFUSALS)
def test_the_rules_refuse(operation: str, given: Any, reason: str) -> None:
    before = json.dumps(BOOKS.orders)
    outcome = rules.apply(BOOKS, operation, given if isinstance(given, dict) else arguments_of(given))
    assert isinstance(outcome, rules.Refused)
    assert reason in outcome.reason
    assert json.dumps(BOOKS.orders) == before


def arguments_of(given: list[Any]) -> dict[str, Any]:
    if len(given) == 1:
        return {"user_id": given[0], **BOOKS.users["customer-01"]["address"]}
    names = ("order_id", "item_ids", "new_item_ids", "payment_method_id")
    return {name: value for name, value in zip(names, given, strict=True) if value is not None}


def test_after_its_items_changed_an_order_takes_a_new_address_and_no_more() -> None:
    ticket = next(ticket for ticket in TICKETS if ticket.ticket == "R19")
    after = expect(BOOKS, ticket.writes).changes
    books = rules.Books(BOOKS.products, {**BOOKS.users, **after.users}, {**BOOKS.orders, **after.orders})
    assert books.orders["order-1018"]["status"] == rules.ITEM_MODIFIED
    assert books.orders["order-1018"]["address"]["address1"] == "300 Sample Avenue"
    for operation, arguments in [
        ("cancel_pending_order", {"order_id": "order-1018", "reason": "no longer needed"}),
        ("modify_pending_order_items", arguments_of(["order-1018", ["kettle-17l"], ["kettle-1l"], "gift-09"])),
        ("modify_pending_order_payment", {"order_id": "order-1018", "payment_method_id": "gift-09"}),
    ]:
        assert isinstance(rules.apply(books, operation, arguments), rules.Refused)


def test_each_of_two_equal_items_is_replaced_by_its_own_variant() -> None:
    ticket = next(ticket for ticket in TICKETS if ticket.ticket == "R16")
    order = expect(BOOKS, ticket.writes).changes.orders["order-1012"]
    assert [(item["item_id"], item["price"]) for item in order["items"]] == [("mug-blue-l", 12.25), ("mug-red-s", 9.5)]
    assert order["payment_history"][1:] == [
        {"transaction_type": "payment", "amount": 2.75, "payment_method_id": "card-06"}
    ]
