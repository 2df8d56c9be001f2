import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_memory.selection.stemming import stem
from agentic_memory.selection.vocabulary import Vocabulary
from agentic_memory.selection.words import chunk_terms, fold, query_terms, split_chunks


@pytest.mark.parametrize(
    ("chunk", "terms"),
    [
        ("getUserName", ["getusername", "get", "user", "nam"]),
        ("max_tokens", ["max_tokens", "max", "token"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("v2.3.1", ["2.3.1"]),
        ("2024-05-01", ["2024-05-01", "2024", "05", "01"]),
        ("绿茶好", ["绿茶", "茶好"]),
        ("茶", ["茶"]),
        ("tea", ["tea"]),
        ("_private", ["privat"]),
    ],
)
def test_a_chunk_gives_its_terms(chunk: str, terms: list[str]) -> None:
    assert split_chunks(chunk) == [chunk]
    assert chunk_terms(chunk) == terms


@pytest.mark.parametrize(
    "forms",
    [
        ("hike", "hikes", "hiked", "hiking"),
        ("study", "studies", "studied", "studying"),
        ("plan", "plans", "planned", "planning"),
        ("box", "boxes", "boxed"),
        ("write", "wrote", "written", "writing", "writes"),
        ("child", "children"),
        ("city", "cities"),
        ("class", "classes"),
    ],
)
def test_forms_of_one_word_share_a_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    "pair", [("evening", "even"), ("news", "new"), ("king", "k"), ("string", "str"), ("bus", "bu")]
)
def test_different_words_keep_different_stems(pair: tuple[str, str]) -> None:
    assert stem(pair[0]) != stem(pair[1])


def test_function_words_are_not_searched_for_unless_there_is_nothing_else() -> None:
    assert query_terms("Where is the spare key?") == ("spar", "key")
    assert query_terms("who am I") == ("who", "am", "i")
    assert query_terms("我喜欢喝什么茶？") == ("喜欢", "欢喝", "茶")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_any_text_can_be_indexed_and_searched(text: str) -> None:
    vocabulary = Vocabulary()
    found = vocabulary.add_text(text)
    general = [term for chunk in split_chunks(fold(text)) for term in chunk_terms(chunk)]
    assert list(found) == [vocabulary.find(term) for term in general]
    query_terms(text)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="aZ_9.:/- é茶", max_size=60))
def test_the_fast_way_to_split_agrees_with_the_general_one(text: str) -> None:
    vocabulary = Vocabulary()
    assert list(vocabulary.add_text(text)) == [
        vocabulary.find(term) for chunk in split_chunks(fold(text)) for term in chunk_terms(chunk)
    ]


def test_a_misspelt_word_finds_its_neighbours_only() -> None:
    vocabulary = Vocabulary()
    vocabulary.add_text("bicycle serial number")
    assert [vocabulary.find("serial")] == list(vocabulary.find_misspelt("seriel"))
    assert vocabulary.find_misspelt("cat") == ()
