"""All cases, in the order in which a report shows them."""

from bookkit.conformance.case import Case
from bookkit.conformance.cases_advantages import ADVANTAGE_CASES
from bookkit.conformance.cases_losses import LOSS_CASES
from bookkit.conformance.cases_tokens import TOKEN_CASES

ALL_CASES: tuple[Case, ...] = TOKEN_CASES + ADVANTAGE_CASES + LOSS_CASES
