"""Names and texts that do harm where they are shown."""

from tests.course.hostile.archives import with_a_pipe
from tests.course.hostile.kinds import Kind, before, during, right

SCRIPT = "<script>document.title='hostile'</script><img src=x onerror=alert(1)>"
STEERING = "\\x1b]0;hostile\\x07\\x1b[2J\\x1b[31m\\u202egnp.exe\\u202c\\x9b31m"
UNWRITABLE = "\\x00\\ud800"  # in no file, nor in the name of a class

NAMES = {
    "name-of-a-formula": "=HYPERLINK(1;2)+cmd|' C'!A0",
    "name-of-a-script": "<script>alert(1)<∕script>&amp;",
    "name-of-escapes": "\x1b[2J\x1b]0;hostile\x07\x9b",
    "name-of-lines": "one\ntwo,9,9,9\r\nthree\tgraded",
    "name-from-right-to-left": "\u202eadam\u2066 exe.\u200bpy",
    "name-of-a-path": "a%2F..%2F..%2Fhostile-mark",
    "name-of-a-report": "report.html",
    "name-of-a-template": "{{ 7 * 7 }}{% raw %}",
}

KINDS = [
    *(
        Kind(kind, "Is refused, and shown.", learner=name, build=with_a_pipe, refused="a FIFO")
        for kind, name in NAMES.items()
    ),
    Kind("name-in-other-bytes", "It is no UTF-8.", learner=b"caf\xe9 \xff\xfe"),
    Kind("name-too-long", "Escaped, it is longer than a file's name may be.", learner="ß" * 127),
    Kind(
        "prints-escapes",
        "Prints what steers a terminal, and a line of a gradebook.",
        before(2, f'print("{STEERING}", "{SCRIPT}", "\\nprints-escapes,graded,3,3,1,1,1")'),
    ),
    Kind(
        "raises-escapes",
        "The same in the words and in the name of an exception.",
        during(
            8,
            f"""
            kind = type("<b>{STEERING}", (Exception,), {{}})
            raise kind("{STEERING}{UNWRITABLE}", "=cmd()", "{SCRIPT}")
            """,
        ),
        {8: "error"},
    ),
    Kind(
        "answers-in-escapes",
        "The same in the names of what was seen.",
        during(8, f'return {{"{STEERING}{UNWRITABLE}": "{SCRIPT}", "=1+1": "{STEERING}"}}'),
        {8: "failed"},
    ),
    Kind(
        "written-in-escapes",
        "The same in a line of the source that a traceback shows.",
        {2: right(2) + f"\nraise ValueError  # {SCRIPT} \x1b[31m \u202e ]]> =cmd()\n"},
        {2: "error"},
    ),
]
