"""Jobs: what runs in or under this process for a tenure, can be asked to end, and is seen to end. No ledger here."""

from tenure.runtime.jobs.base import Job, Outcome, outside
from tenure.runtime.jobs.coroutine import CoroutineJob, watch_tasks
from tenure.runtime.jobs.hosts import comparable, group_members, process_alive, survivors_of, this_host
from tenure.runtime.jobs.process import ProcessJob
from tenure.runtime.jobs.remote import RemoteJob
from tenure.runtime.jobs.retire import Retired, retire
from tenure.runtime.jobs.thread import ThreadJob

__all__ = [
    "CoroutineJob",
    "Job",
    "Outcome",
    "ProcessJob",
    "RemoteJob",
    "Retired",
    "ThreadJob",
    "comparable",
    "group_members",
    "outside",
    "process_alive",
    "retire",
    "survivors_of",
    "this_host",
    "watch_tasks",
]
