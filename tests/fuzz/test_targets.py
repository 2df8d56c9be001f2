"""The targets at every test run: over the corpus, over pieces of it, and over random bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.corpus import corpus
from fuzz.targets import SEPARATOR, TARGETS

pieces = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.sampled_from([SEPARATOR, b"---\n", b"\r\n", b"\n", b": ", b" #", b"- [", b"](a.md)", b"|", b"\xef\xbb\xbf"]),
        st.sampled_from([data[:60] for data in corpus()]),
    ),
    max_size=10,
).map(b"".join)


@pytest.mark.parametrize("target", TARGETS)
def test_every_input_of_the_corpus_stands(target):
    for data in corpus():
        TARGETS[target](data)


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=100, deadline=None)
@given(data=pieces)
def test_any_input_stands(target, data):
    TARGETS[target](data)
