"""What can be told apart: relations among derivatives, proved; independence, certified."""

from hmoe_lib.identifiability.certificates import Certificate, certify
from hmoe_lib.identifiability.conditions import family
from hmoe_lib.identifiability.contact import Contact, contact_order
from hmoe_lib.identifiability.families import Family, custom
from hmoe_lib.identifiability.gram import Gram, ModelGram, gram
from hmoe_lib.identifiability.identities import (
    Identity,
    OrderProof,
    homogeneous_split,
    plain_split,
    prove_identity,
    prove_order,
    split_series,
)
from hmoe_lib.identifiability.odes import OdeTest, ode_test
from hmoe_lib.identifiability.parsing import parse_activation
from hmoe_lib.identifiability.recheck import recheck
from hmoe_lib.identifiability.relations import Problem, Relation, prove
from hmoe_lib.identifiability.verdict import Examination, Verdict, examine, verdict

__all__ = [
    "Certificate",
    "Contact",
    "Examination",
    "Family",
    "Gram",
    "Identity",
    "ModelGram",
    "OdeTest",
    "OrderProof",
    "Problem",
    "Relation",
    "Verdict",
    "certify",
    "contact_order",
    "custom",
    "examine",
    "family",
    "gram",
    "homogeneous_split",
    "ode_test",
    "parse_activation",
    "plain_split",
    "prove",
    "prove_identity",
    "prove_order",
    "recheck",
    "split_series",
    "verdict",
]
