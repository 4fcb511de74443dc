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
from hmoe_lib.identifiability.overfit import (
    Elimination,
    GaussHermite,
    eliminate_two,
    gauss_hermite,
    gauss_hermite_tv,
    gaussian_relations,
    overfit_system,
    r_bar,
)
from hmoe_lib.identifiability.parsing import parse_activation
from hmoe_lib.identifiability.recheck import recheck
from hmoe_lib.identifiability.relations import Problem, Relation, prove
from hmoe_lib.identifiability.verdict import Examination, Verdict, examine, verdict

__all__ = [
    "Certificate",
    "Contact",
    "Elimination",
    "Examination",
    "Family",
    "GaussHermite",
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
    "eliminate_two",
    "examine",
    "family",
    "gauss_hermite",
    "gauss_hermite_tv",
    "gaussian_relations",
    "gram",
    "homogeneous_split",
    "ode_test",
    "overfit_system",
    "parse_activation",
    "plain_split",
    "prove",
    "prove_identity",
    "prove_order",
    "r_bar",
    "recheck",
    "split_series",
    "verdict",
]
