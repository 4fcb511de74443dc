"""What can be told apart: relations among derivatives, proved; independence, certified."""

from hmoe_lib.identifiability.atlas import AtomVerdict, atlas, atom_verdict, mixture_family
from hmoe_lib.identifiability.atom_contact import atom_contact, cell_contacts
from hmoe_lib.identifiability.atoms import EXPERTS, GATES, Atom, Expert, Gate, atom
from hmoe_lib.identifiability.certificates import Certificate, certify
from hmoe_lib.identifiability.conditions import family
from hmoe_lib.identifiability.contact import Contact, contact_order
from hmoe_lib.identifiability.export import (
    atlas_for_page,
    atlas_table,
    atlas_to_dict,
    cell_to_dict,
)
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
from hmoe_lib.identifiability.recheck_cells import recheck_cell
from hmoe_lib.identifiability.relations import Problem, Relation, prove
from hmoe_lib.identifiability.splits import Split, find_splits
from hmoe_lib.identifiability.verdict import Examination, Verdict, examine, verdict

__all__ = [
    "EXPERTS",
    "GATES",
    "Atom",
    "AtomVerdict",
    "Certificate",
    "Contact",
    "Elimination",
    "Examination",
    "Expert",
    "Family",
    "Gate",
    "GaussHermite",
    "Gram",
    "Identity",
    "ModelGram",
    "OdeTest",
    "OrderProof",
    "Problem",
    "Relation",
    "Split",
    "Verdict",
    "atlas",
    "atlas_for_page",
    "atlas_table",
    "atlas_to_dict",
    "atom",
    "atom_contact",
    "atom_verdict",
    "cell_contacts",
    "cell_to_dict",
    "certify",
    "contact_order",
    "custom",
    "eliminate_two",
    "examine",
    "family",
    "find_splits",
    "gauss_hermite",
    "gauss_hermite_tv",
    "gaussian_relations",
    "gram",
    "homogeneous_split",
    "mixture_family",
    "ode_test",
    "overfit_system",
    "parse_activation",
    "plain_split",
    "prove",
    "prove_identity",
    "prove_order",
    "r_bar",
    "recheck",
    "recheck_cell",
    "split_series",
    "verdict",
]
