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
@given(st.lists(st.text(max_size=100) | st.text(alphabet="aZ_9.:/- é茶\0", max_size=60), max_size=5))
def test_many_texts_at_once_give_the_terms_of_each(texts: list[str]) -> None:
    vocabulary = Vocabulary()
    terms, lengths = vocabulary.add_texts(texts)
    general = [[term for chunk in split_chunks(fold(text)) for term in chunk_terms(chunk)] for text in texts]
    assert lengths.tolist() == [len(each) for each in general]
    assert terms.tolist() == [vocabulary.find(term) for each in general for term in each]
    for text in texts:
        query_terms(text)


def test_pieces_are_forgotten_when_they_become_too_many_and_terms_are_not(monkeypatch) -> None:
    monkeypatch.setattr("agentic_memory.selection.vocabulary.MAX_KEPT_PIECES", 3)
    vocabulary = Vocabulary()
    texts = ["getUserName max_tokens 绿茶好", "tea " * 3, "getUserName", "x" * 100]
    first = [vocabulary.add_texts([text])[0].tolist() for text in texts]
    assert [vocabulary.add_texts([text])[0].tolist() for text in texts] == first


def test_a_misspelt_word_finds_its_neighbours_only() -> None:
    vocabulary = Vocabulary()
    vocabulary.add_texts(["bicycle serial number"])
    assert [vocabulary.find("serial")] == list(vocabulary.find_misspelt("seriel"))
    assert vocabulary.find_misspelt("cat") == ()
