"""Guests that move to another host in mid-run: which, and what the world is after a move."""

from __future__ import annotations

from virtlab.catalogue.actions import MIGRATE
from virtlab.plan import Action, Guest, Plan

MODE, OVER = "pre_copy", "machine"  # what a Plan means that says neither


def moves(plan: Plan) -> dict[str, Action]:
    """Guest -> the action by which it moves."""
    return {str(action.guest): action for action in plan.timeline if action.do == MIGRATE.name}


def vswitch_there(guest: Guest, vswitch: str, to: str) -> str:
    """The name of the virtual switch at the destination that takes the place of a guest's own.

    Switches of one name on two hosts are each other's: 'h1.br' and 'h2.br'.
    """
    return f"{to}.{vswitch.removeprefix(f'{guest.host}.')}"


def moved(plan: Plan, name: str, to: str) -> Plan:
    """The Plan with a guest on another host, its vNICs on the virtual switches there."""
    guest = plan.world.guests[name]
    vnics = {
        own: vnic.model_copy(update={"vswitch": vswitch_there(guest, str(vnic.vswitch), to)})
        for own, vnic in guest.vnics.items()
    }
    guests = {**plan.world.guests, name: guest.model_copy(update={"host": to, "vnics": vnics})}
    return plan.model_copy(update={"world": plan.world.model_copy(update={"guests": guests})})
