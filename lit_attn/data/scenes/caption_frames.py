"""What shapes do captions have? The frames of single sentences, in the notation of `frames`."""

from .frames import Frame, frame

CAPTION_FRAMES: tuple[Frame, ...] = (
    # One relation, told in many ways.
    frame("there is", "there/expl>exists exists@A/ROOT A/attr>exists AB>A B/pobj>AB ./punct>exists"),
    frame("is", "A/nsubj>is is@A/ROOT AB>is B/pobj>AB ./punct>is"),
    frame("stands", "A/nsubj>stands stands@A/ROOT AB>stands B/pobj>AB ./punct>stands"),
    frame(
        "is standing",
        "A/nsubj>standing is@A/aux>standing standing@A/ROOT AB>standing B/pobj>AB ./punct>standing",
    ),
    frame("a thing", "A/ROOT AB>A B/pobj>AB ./punct>A"),
    frame("a thing standing", "A/ROOT standing@A/acl>A AB>standing B/pobj>AB ./punct>A"),
    frame(
        "there is standing",
        "there/expl>exists exists@A/ROOT A/attr>exists standing@A/acl>A AB>standing B/pobj>AB ./punct>exists",
    ),
    frame(
        "there is that stands",
        "there/expl>exists exists@A/ROOT A/attr>exists that/nsubj>stands stands@A/relcl>A AB>stands B/pobj>AB "
        "./punct>exists",
    ),
    frame(
        "there is which is",
        "there/expl>exists exists@A/ROOT A/attr>exists which/nsubj>is is@A/relcl>A AB>is B/pobj>AB ./punct>exists",
    ),
    frame("where stands", "AB>stands B/pobj>AB stands@A/ROOT A/nsubj>stands ./punct>stands"),
    frame("where there is", "AB>exists B/pobj>AB there/expl>exists exists@A/ROOT A/attr>exists ./punct>exists"),
    frame(
        "where, there is",
        "AB>exists B/pobj>AB ,/punct>exists there/expl>exists exists@A/ROOT A/attr>exists ./punct>exists",
    ),
    frame("where is", "AB>is B/pobj>AB is@A/ROOT A/attr>is ./punct>is"),
    frame("you can see", "you/nsubj>see can/aux>see see/ROOT A/dobj>see AB>see B/pobj>AB ./punct>see"),
    frame(
        "can be seen",
        "A/nsubjpass>seen can/aux>seen be/auxpass>seen seen/ROOT AB>seen B/pobj>AB ./punct>seen",
    ),
    frame(
        "is located",
        "A/nsubjpass>located is@A/auxpass>located located/ROOT AB>located B/pobj>AB ./punct>located",
        "AB=left|right|next|near|behind|front A=floor",
    ),
    frame(
        "someone has put",
        "someone/nsubj>put has/aux>put put/ROOT A/dobj>put AB>put B/pobj>AB ./punct>put",
        "AB=on|under A=movable",
    ),
    frame("the photo shows", "the_photo/nsubj>shows shows/ROOT A/dobj>shows AB>A B/pobj>AB ./punct>shows"),
    frame("colored thing is", "A/nsubj>is AB>A B/pobj>AB is@A/ROOT color.A/acomp>is ./punct>is"),
    frame(
        "which is colored",
        "A/nsubj>stands which/nsubj>is is@A/relcl>A color.A/acomp>is stands@A/ROOT AB>stands B/pobj>AB ./punct>stands",
    ),
    # A thing that has another one.
    frame(
        "has",
        "B/nsubj>having having@B/ROOT A/dobj>having AB>A it.B/pobj>AB ./punct>having",
        "AB=on|above|next|behind",
    ),
    frame("with", "B/ROOT with/prep>B A/pobj>with AB>A it.B/pobj>AB ./punct>B", "AB=on|above|next|under|behind"),
    frame(
        "there is with",
        "there/expl>exists exists@B/ROOT B/attr>exists with/prep>B A/pobj>with AB>A it.B/pobj>AB ./punct>exists",
        "AB=on|above|under|behind|front|below",
    ),
    frame(
        "there is, and it has",
        "there/expl>exists exists@B/ROOT B/attr>exists ,/punct>exists and/cc>exists A/nsubj>stands "
        "stands@A/conj>exists AB>stands it.B/pobj>AB ./punct>stands",
    ),
    frame(
        "there is and there is",
        "there/expl>exists exists@B/ROOT B/attr>exists and/cc>exists there2/expl>exists2 exists2@A/conj>exists "
        "A/attr>exists2 AB>A it.B/pobj>AB ./punct>exists2",
    ),
    # Two relations.
    frame(
        "there is chain", "there/expl>exists exists@A/ROOT A/attr>exists AB>A B/pobj>AB BC>B C/pobj>BC ./punct>exists"
    ),
    frame("a thing chain", "A/ROOT AB>A B/pobj>AB BC>B C/pobj>BC ./punct>A"),
    frame(
        "is, that is",
        "A/nsubj>is is@A/ROOT AB>is B/pobj>AB that/nsubj>is2 is2@B/relcl>B BC>is2 C/pobj>BC ./punct>is",
    ),
    frame(
        "stands, which stands",
        "A/nsubj>stands stands@A/ROOT AB>stands B/pobj>AB which/nsubj>stands2 stands2@B/relcl>B BC>stands2 C/pobj>BC "
        "./punct>stands",
    ),
    frame(
        "that is, is",
        "A/nsubj>is that/nsubj>is2 is2@A/relcl>A AB>is2 B/pobj>AB is@A/ROOT AC>is C/pobj>AC ./punct>is",
    ),
    frame("is and", "A/nsubj>is is@A/ROOT AB>is B/pobj>AB and/cc>AB AC/conj>AB C/pobj>AC ./punct>is"),
    frame(
        "there is, and it is",
        "there/expl>exists exists@A/ROOT A/attr>exists AB>A B/pobj>AB ,/punct>exists and/cc>exists it.A/nsubj>is "
        "is@A/conj>exists AC>is C/pobj>AC ./punct>is",
    ),
    frame(
        "both are",
        "A/nsubj>are and/cc>A C/conj>A are/ROOT AB+CB>are B/pobj>AB+CB ./punct>are",
    ),
    frame(
        "both stand",
        "A/nsubj>stand and/cc>A C/conj>A stand@AC/ROOT AB+CB>stand B/pobj>AB+CB ./punct>stand",
    ),
    frame(
        "there are both",
        "there/expl>exists exists@A/ROOT A/attr>exists and/cc>A C/conj>A AB+CB>exists B/pobj>AB+CB ./punct>exists",
    ),
    frame("near both", "A/nsubj>is is@A/ROOT AB+AC>is B/pobj>AB+AC and/cc>B C/conj>B ./punct>is"),
    frame(
        "is, and the same",
        "A/nsubj>is is@A/ROOT AB>is B/pobj>AB ,/punct>is and/cc>is C/nsubj>is2 is2@C/conj>is CB>is2 the.B/pobj>CB "
        "./punct>is2",
    ),
    # Two relations apart from each other.
    frame(
        "there is and",
        "there/expl>exists exists@A/ROOT A/attr>exists AB>A B/pobj>AB and/cc>A C/conj>A CD>C D/pobj>CD ./punct>exists",
    ),
    frame(
        "is, and is",
        "A/nsubj>is is@A/ROOT AB>is B/pobj>AB ,/punct>is and/cc>is C/nsubj>is2 is2@C/conj>is CD>is2 D/pobj>CD "
        "./punct>is2",
    ),
    frame(
        "stands while",
        "A/nsubj>stands stands@A/ROOT AB>stands B/pobj>AB ,/punct>stands while/mark>stands2 C/nsubj>stands2 "
        "stands2@C/advcl>stands CD>stands2 D/pobj>CD ./punct>stands",
    ),
    # The room and its parts.
    frame("a room with", "a_ROOM/ROOT with/prep>a_ROOM A/pobj>with and/cc>A B/conj>A ./punct>a_ROOM"),
    frame(
        "this is a room",
        "this_one/nsubj>is is/ROOT a_ROOM/attr>is with/prep>a_ROOM A/pobj>with AB>A B/pobj>AB ./punct>is",
    ),
    frame(
        "in this room",
        "in/prep>stands this_ROOM/pobj>in ,/punct>stands A/nsubj>stands stands@A/ROOT AB>stands B/pobj>AB "
        "./punct>stands",
    ),
    frame(
        "the room contains", "the_ROOM/nsubj>contains contains/ROOT A/dobj>contains and/cc>A B/conj>A ./punct>contains"
    ),
    frame("the room has", "the_ROOM/nsubj>having having/ROOT A/dobj>having AB>A B/pobj>AB ./punct>having"),
    frame(
        "a photo of",
        "a_photo/ROOT of/prep>a_photo a_ROOM/pobj>of with/prep>a_ROOM A/pobj>with AB>A B/pobj>AB ./punct>a_photo",
    ),
    frame(
        "there are three",
        "there/expl>exists exists@A/ROOT A/attr>exists ,/punct>A B/conj>A and/cc>B C/conj>B in/prep>exists "
        "the_ROOM/pobj>in ./punct>exists",
    ),
    frame(
        "in the room, and",
        "there/expl>exists exists@B/ROOT B/attr>exists in/prep>exists the_ROOM/pobj>in ,/punct>exists and/cc>exists "
        "A/nsubj>stands stands@A/conj>exists AB>stands the.B/pobj>AB ./punct>stands",
    ),
    frame(
        "left and right",
        "on/prep>exists the_left/pobj>on there/expl>exists exists@A/ROOT A/attr>exists ,/punct>exists and/cc>exists "
        "on2/prep>exists2 the_right/pobj>on2 there2/expl>exists2 exists2@B/conj>exists B/attr>exists2 ./punct>exists2",
        "A=left B=right",
    ),
    frame(
        "on the left",
        "A/nsubj>is is@A/ROOT on/prep>is the_left/pobj>on ,/punct>is AB>is B/pobj>AB ./punct>is",
        "A=left AB=on|under|next|behind|front|above|below|near",
    ),
    frame(
        "in the background",
        "in/prep>exists the_background/pobj>in there/expl>exists exists@A/ROOT A/attr>exists AB>A B/pobj>AB "
        "./punct>exists",
        "A=background",
    ),
    frame(
        "in the foreground",
        "in/prep>stands the_foreground/pobj>in ,/punct>stands A/nsubj>stands stands@A/ROOT AB>stands B/pobj>AB "
        "./punct>stands",
        "A=foreground",
    ),
    frame(
        "on the wall",
        "A/nsubj>stands stands@A/ROOT on/prep>stands the_wall/pobj>on AB>stands B/pobj>AB ./punct>stands",
        "A=wall AB=above|next|left|right",
    ),
    frame(
        "on the wall hangs",
        "on/prep>stands the_wall/pobj>on AB>the_wall B/pobj>AB stands@A/ROOT A/nsubj>stands ./punct>stands",
        "A=wall AB=above",
    ),
    frame(
        "on the floor",
        "A/nsubj>stands stands@A/ROOT on/prep>stands the_floor/pobj>on AB>stands B/pobj>AB ./punct>stands",
        "A=floor AB=under|next|near|left|right|front|behind",
    ),
    # Several of a kind.
    frame("there are several", "there/expl>exists exists@N/ROOT N/attr>exists NB>N B/pobj>NB ./punct>exists"),
    frame("several are", "N/nsubj>is is@N/ROOT NB>is B/pobj>NB ./punct>is"),
    frame("several stand", "N/nsubj>stands stands@N/ROOT NB>stands B/pobj>NB ./punct>stands"),
    frame("several standing", "N/ROOT standing@N/acl>N NB>standing B/pobj>NB ./punct>N"),
    frame("with several", "B/ROOT with/prep>B N/pobj>with NB>N it.B/pobj>NB ./punct>B", "NB=on|above|behind"),
    frame(
        "several and one",
        "there/expl>exists exists@N/ROOT N/attr>exists and/cc>N A/conj>N in/prep>exists the_ROOM/pobj>in "
        "./punct>exists",
    ),
    frame("a room with several", "a_ROOM/ROOT with/prep>a_ROOM N/pobj>with and/cc>N A/conj>N ./punct>a_ROOM"),
    frame(
        "several, and",
        "there/expl>exists exists@N/ROOT N/attr>exists in/prep>exists the_room/pobj>in ,/punct>exists and/cc>exists "
        "A/nsubj>is is@A/conj>exists AB>is B/pobj>AB ./punct>is",
    ),
    frame("several and that", "N/ROOT and/cc>N A/conj>N AB>A B/pobj>AB ./punct>N"),
)
"""Every frame has a name of its own."""
