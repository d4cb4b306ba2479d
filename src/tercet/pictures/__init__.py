"""Pictures of models, drawn with matplotlib when asked for."""

from tercet.pictures.pairs import draw_pairs, look_at_pairs, picture

__all__ = ["draw_pairs", "look_at_pairs", "picture"]
