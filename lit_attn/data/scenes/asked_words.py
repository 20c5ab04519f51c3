"""Which words do questions about rooms have? All that the grammar can say, listed: to ask for them all takes ten seconds."""

_LISTED = """
    a above an and any are armchair armchairs as ball balls bath baths bathtub bathtubs bear bears bed beds behind
    below beneath beside big black blue book bookcase bookcases books bookshelf bookshelves bottle bottles bowl
    bowls box boxes brown by cabinet cabinets call can candle candles cat cats ceramic chair chairs clock clocks
    close closet closets color couch couches cup cupboard cupboards cups cushion cushions desk desks do does dog
    dogs equal fabric far fewer fridge fridges from front glass gray greater green have how in is kind lamp lamps
    laptop laptops large leather left light lights made many material metal mirror mirrors more mug mugs near next
    not number object objects of on or orange oven ovens over painting paintings paper picture pictures pillow
    pillows pink plant plants plastic poster posters purple red refrigerator refrigerators right room same seat
    seats see side sign signs size small smaller sofa sofas stone stool stools stove stoves stuffed table tables
    teddy television televisions than that the there thing things to toilet toilets top total tv tvs under
    underneath vase vases wardrobe wardrobes what which white window windows wooden yellow you
"""

ASKED_WORDS = tuple(_LISTED.split())
"""Sorted, without the question mark."""
