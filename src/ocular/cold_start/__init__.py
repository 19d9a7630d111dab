"""
Products and clients that the fit has not seen, known by attributes, by a few purchases, or by both.

Nothing is refitted. A new product i has two sources. Its first k buyers give it memberships f° (`fold_in` with the
sides exchanged) and links S° (its own problem, see `ocular.solver.links`). Its attributes give it neighbours: the known
products j with the most similar attributes, weighted by w_ij ∝ cos² of their tf-idf vectors. From these it borrows

    f' = Σ_j w_ij f_j        S' = Σ_j w_ij S_·j + ε Σ S_·j · w_i        with ε = 0.1 for the similar products themselves

and what clients like in its attributes is known already (taste, B). With n̄ the mean number of buyers per product,

    z_ui = c · [ (⟨f_u, f°⟩ + α Σ_{j of u} S°_j + β Σ_{v of i} T_vu) / (1 + α + β + γ + δ)
               + κ / n̄ · (⟨f_u, f'⟩ + Σ_{j of u} S'_j + 2 Σ_{a of i} B_ua) / 4 ]           c = max(1, n̄ / (κ + k))

with κ = min(1.5 √n̄, n̄), so that attributes count as much as κ buyers, and a product without any buyer has the score
that its neighbours have. Where the model has no links, 3 takes the place of 4. A new client is the same with the sides
exchanged: peers for links, appeal for taste. The constants were chosen on other products and clients than those that
experiments/cold_start.py measures.
"""

from ocular.cold_start.start import ColdStart

__all__ = ["ColdStart"]
