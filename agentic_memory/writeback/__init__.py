"""What an agent learns by itself: extraction of what a turn taught, consolidation with what is known, a durable queue."""

from agentic_memory.writeback.learner import Learner
from agentic_memory.writeback.plans import Learned
from agentic_memory.writeback.report import LearnReport

__all__ = ["LearnReport", "Learned", "Learner"]
