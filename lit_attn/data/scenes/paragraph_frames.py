"""What shapes do the sentences of a paragraph have? Openings name the room; the rest lean on what was said before."""

from .frames import Frame, frame

OPENINGS: tuple[Frame, ...] = (
    frame(
        "opening: this is a room with two",
        "this_one/nsubj>is is/ROOT a_ROOM/attr>is with/prep>a_ROOM A/pobj>with and/cc>A B/conj>A ./punct>is",
    ),
    frame(
        "opening: this is a room with one where",
        "this_one/nsubj>is is/ROOT a_ROOM/attr>is with/prep>a_ROOM A/pobj>with AB>A B/pobj>AB ./punct>is",
    ),
    frame(
        "opening: the photo shows",
        "the_photo/nsubj>shows shows/ROOT a_ROOM/dobj>shows with/prep>a_ROOM A/pobj>with ./punct>shows",
    ),
    frame(
        "opening: you can see",
        "you/nsubj>see can/aux>see see/ROOT a_ROOM/dobj>see with/prep>a_ROOM A/pobj>with and/cc>A B/conj>A ./punct>see",
    ),
    frame(
        "opening: there is in this room",
        "there/expl>exists exists@A/ROOT A/attr>exists in/prep>exists this_ROOM/pobj>in ./punct>exists",
    ),
    frame(
        "opening: in this room",
        "in/prep>exists this_ROOM/pobj>in ,/punct>exists there/expl>exists exists@A/ROOT A/attr>exists and/cc>A "
        "B/conj>A ./punct>exists",
    ),
    frame(
        "opening: several",
        "this_one/nsubj>is is/ROOT a_ROOM/attr>is with/prep>a_ROOM N/pobj>with and/cc>N A/conj>N ./punct>is",
    ),
)

CONTINUATIONS: tuple[Frame, ...] = (
    # Something new, found from something known.
    frame(
        "then: where, there is",
        "AB>exists B/pobj>AB ,/punct>exists there/expl>exists exists@A/ROOT A/attr>exists ./punct>exists",
        "A=new B=old",
    ),
    frame("then: where stands", "AB>stands B/pobj>AB stands@A/ROOT A/nsubj>stands ./punct>stands", "A=new B=old"),
    frame("then: stands", "A/nsubj>stands stands@A/ROOT AB>stands B/pobj>AB ./punct>stands", "A=new B=old"),
    frame("then: is", "A/nsubj>is is@A/ROOT AB>is B/pobj>AB ./punct>is", "A=new B=old"),
    frame(
        "then: there is which is",
        "there/expl>exists exists@A/ROOT A/attr>exists which/nsubj>is is@A/relcl>A AB>is B/pobj>AB ./punct>exists",
        "A=new B=old",
    ),
    frame(
        "then: you can also see",
        "you/nsubj>see can/aux>see also/advmod>see see/ROOT A/dobj>see AB>see B/pobj>AB ./punct>see",
        "A=new B=old",
    ),
    frame(
        "then: has",
        "B/nsubj>having having@B/ROOT A/dobj>having AB>A it.B/pobj>AB ./punct>having",
        "A=new B=old AB=on|above|next|behind",
    ),
    frame(
        "then: both are",
        "A/nsubj>are and/cc>A C/conj>A are/ROOT AB+CB>are B/pobj>AB+CB ./punct>are",
        "A=new C=new B=old",
    ),
    frame(
        "then: there are several",
        "there/expl>exists exists@N/ROOT N/attr>exists NB>N B/pobj>NB ./punct>exists",
        "N=new B=old",
    ),
    # Something new, found from "it".
    frame(
        "then: there is by it",
        "there/expl>exists exists@A/ROOT A/attr>exists AB>A it.B/pobj>AB ./punct>exists",
        "A=new B=focus",
    ),
    frame("then: by it stands", "AB>stands it.B/pobj>AB stands@A/ROOT A/nsubj>stands ./punct>stands", "A=new B=focus"),
    frame("then: is by it", "A/nsubj>is is@A/ROOT AB>is it.B/pobj>AB ./punct>is", "A=new B=focus"),
    frame(
        "then: it is colored and stands",
        "it.A/nsubj>is is@A/ROOT color.A/acomp>is and/cc>is stands@A/conj>is AB>stands B/pobj>AB ./punct>is",
        "A=focus",
    ),
    frame("then: it stands", "it.A/nsubj>stands stands@A/ROOT AB>stands B/pobj>AB ./punct>stands", "A=focus"),
    # More about known things.
    frame("then: it is colored", "it.A/nsubj>is is@A/ROOT color.A/acomp>is ./punct>is", "A=focus"),
    frame("then: is colored", "A/nsubj>is is@A/ROOT color.A/acomp>is ./punct>is", "A=old"),
    frame(
        "then: is colored, and",
        "A/nsubj>is is@A/ROOT color.A/acomp>is ,/punct>is and/cc>is B/nsubj>stands stands@B/conj>is BA>stands "
        "it.A/pobj>BA ./punct>stands",
        "A=old B=new",
    ),
    frame("then: known is", "A/nsubj>is is@A/ROOT AB>is B/pobj>AB ./punct>is", "A=old B=old"),
    frame("then: they are", "they.AC/nsubj>are are/ROOT AB+CB>are B/pobj>AB+CB ./punct>are", "A=pair C=pair"),
    frame(
        "then: they are both",
        "they.AC/nsubj>are are/ROOT both/dep>are AB+CB>are B/pobj>AB+CB ./punct>are",
        "A=pair C=pair",
    ),
    frame("then: the other one is", "other.A/nsubj>is is@A/ROOT AB>is B/pobj>AB ./punct>is", "A=twin B=new"),
    frame("then: the other one is colored", "other.A/nsubj>is is@A/ROOT color.A/acomp>is ./punct>is", "A=twin"),
    # Parts of the room.
    frame(
        "then: on the wall",
        "on/prep>exists the_wall/pobj>on there/expl>exists exists@A/ROOT A/attr>exists ,/punct>A AB>A "
        "B/pobj>AB ./punct>exists",
        "A=new A=wall B=old AB=above|next|left|right",
    ),
    frame(
        "then: hangs on the wall",
        "A/nsubj>stands stands@A/ROOT on/prep>stands the_wall/pobj>on ./punct>stands",
        "A=new A=wall",
    ),
    frame(
        "then: in the background",
        "in/prep>exists the_background/pobj>in there/expl>exists exists@A/ROOT A/attr>exists ./punct>exists",
        "A=new A=background",
    ),
    frame(
        "then: in the foreground",
        "in/prep>see the_foreground/pobj>in you/nsubj>see can/aux>see see/ROOT A/dobj>see ./punct>see",
        "A=new A=foreground",
    ),
    frame(
        "then: on the left",
        "on/prep>exists the_left/pobj>on there/expl>exists exists@A/ROOT A/attr>exists ./punct>exists",
        "A=new A=left",
    ),
    frame(
        "then: on the right",
        "on/prep>exists the_right/pobj>on ,/punct>exists there/expl>exists exists@A/ROOT A/attr>exists AB>A B/pobj>AB "
        "./punct>exists",
        "A=new A=right",
    ),
    frame(
        "then: on the floor",
        "A/nsubj>stands stands@A/ROOT on/prep>stands the_floor/pobj>on AB>stands B/pobj>AB ./punct>stands",
        "A=new A=floor B=old AB=under|next|near|front|behind|left|right",
    ),
)
"""Every frame has a name of its own."""
