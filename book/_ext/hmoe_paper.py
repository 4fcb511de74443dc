"""What only the PDF needs: tables that fit the page, and names of exercises that resolve."""

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

NARROWEST, WIDEST = 5, 30


class FitTables(SphinxPostTransform):
    """Give each column a share of the line, by the length of what stands in it."""

    default_priority = 800
    formats = ("latex",)

    def run(self, **kwargs) -> None:
        for table in list(self.document.findall(nodes.table)):
            rows = [row.children for row in table.findall(nodes.row)]
            whole = [cells for cells in rows if len(cells) == max(map(len, rows))]
            widths = [
                max(len(cell.astext()) for cell in column) for column in zip(*whole, strict=True)
            ]
            shares = [min(max(width, NARROWEST), WIDEST) for width in widths]
            if sum(shares) > 2 * WIDEST or max(widths) > WIDEST:
                spec = "|".join(rf"\X{{{share}}}{{{sum(shares)}}}" for share in shares)
                place = table.parent.index(table)
                table.parent.insert(place, addnodes.tabular_col_spec(spec=f"|{spec}|"))


class NameExercises(SphinxPostTransform):
    """An exercise is named by its title: sphinx-exercise gives it another label in LaTeX."""

    default_priority = 800
    formats = ("latex",)

    def run(self, **kwargs) -> None:
        for link in list(self.document.findall(addnodes.number_reference)):
            if link.get("refuri", link.get("refid", "")).rpartition("#")[2].startswith("ex-"):
                link.replace_self(nodes.inline("", link.get("title", "").replace("%s", "").strip()))


def setup(app):
    app.add_post_transform(FitTables)
    app.add_post_transform(NameExercises)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
