"""Attention as a hierarchical mixture of experts."""
