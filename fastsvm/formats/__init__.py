"""Conversion of published data formats to one HDF5 layout, in bounded memory."""

from fastsvm.formats.conversion import Summary, convert
from fastsvm.formats.readers import FORMATS, Format, recognise

__all__ = ["FORMATS", "Format", "Summary", "convert", "recognise"]
