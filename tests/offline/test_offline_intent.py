"""Which request a sentence makes, and how statements are cut out of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.offline.intent import (
    Forget,
    Other,
    Recall,
    Remember,
    describe_fact,
    parse_intent,
    split_statements,
)


def remembered(text):
    intent = parse_intent(text)
    assert isinstance(intent, Remember), intent
    return [fact.text for fact in intent.facts]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Remember that I live in Hangzhou", ["I live in Hangzhou"]),
        ("remember I live in Hangzhou.", ["I live in Hangzhou"]),
        ("Please remember: my dog is called Rex!", ["my dog is called Rex"]),
        ("Hey, could you please remember that our deadline is 2025-03-01? Thanks!", ["our deadline is 2025-03-01"]),
        ("I'd like you to remember that my favourite dish is 东坡肉", ["my favourite dish is 东坡肉"]),
        ("don't forget that I'm allergic to peanuts", ["I'm allergic to peanuts"]),
        ("Keep in mind I use vim", ["I use vim"]),
        ("Make a note that the wiki is down", ["the wiki is down"]),
        ("remember to use metric units", ["use metric units"]),
        ("Will you remember that my wife is Ana?", ["my wife is Ana"]),
        ("请记住我住在杭州", ["我住在杭州"]),
        ("记住：我对花生过敏。", ["我对花生过敏"]),
        ("帮我把我的生日是5月3日记下来", ["我的生日是5月3日"]),
        ("别忘了我们项目下周五上线", ["我们项目下周五上线"]),
        ("记得我喜欢喝茶", ["我喜欢喝茶"]),
    ],
)
def test_remember_takes_the_statement_in_its_own_words(text, facts):
    assert remembered(text) == facts


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "Remember that I live in Hangzhou and prefer concise Chinese answers.",
            ["I live in Hangzhou", "I prefer concise Chinese answers"],
        ),
        (
            "Keep in mind I work at ACME, use vim, and speak German.",
            ["I work at ACME", "I use vim", "I speak German"],
        ),
        ("请记住我住在杭州，喜欢简洁的中文回答。", ["我住在杭州", "我喜欢简洁的中文回答"]),
        ("Remember these:\n- I live in Oslo\n- My cat is Tom", ["I live in Oslo", "My cat is Tom"]),
        ("Remember that I moved to Oslo. Also my dog is Rex", ["I moved to Oslo", "my dog is Rex"]),
        ("Remember I live in Oslo. Also remember that my dog is Rex.", ["I live in Oslo", "my dog is Rex"]),
        ("Remember I like cats and dogs", ["I like cats and dogs"]),
        ("Remember that v1.2 is out, e.g. on the site. The fix is in v1.3.", None),
    ],
)
def test_several_statements_are_told_apart(text, facts):
    if facts is None:
        assert remembered(text) == ["v1.2 is out, e.g. on the site", "The fix is in v1.3"]
    else:
        assert remembered(text) == facts


@pytest.mark.parametrize("text", ["remember", "Remember that", "记住", "请记住。"])
def test_remember_without_a_statement_holds_no_facts(text):
    assert parse_intent(text) == Remember(())


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("Do you remember my location and answer style preference?", "my location and answer style preference"),
        ("Can you remember where I live?", "where I live"),
        ("What do you know about my dog?", "my dog"),
        ("remind me of my birthday", "my birthday"),
        ("What's my name?", "What's my name"),
        ("where do I live", "where do I live"),
        ("你还记得我住在哪里吗？", "我住在哪里"),
        ("你知道我喜欢什么吗", "我喜欢什么"),
        ("我的名字是什么", "我的名字是什么"),
        ("我对什么过敏？", "我对什么过敏"),
    ],
)
def test_questions_recall(text, topic):
    assert parse_intent(text) == Recall(topic)


@pytest.mark.parametrize("text", ["What do you know about me?", "what do you remember?", "你还记得关于我的一切吗？"])
def test_asking_about_oneself_recalls_everything(text):
    intent = parse_intent(text)
    assert isinstance(intent, Recall)
    assert intent.everything


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("forget that I live in Hangzhou", "I live in Hangzhou"),
        ("Please forget my address.", "my address"),
        ("Forget everything about my dog", "my dog"),
        ("delete the memory about the deadline", "the deadline"),
        ("remove my birthday from memory", "my birthday"),
        ("忘掉我的地址", "我的地址"),
        ("把关于我的狗的记忆删掉", "我的狗"),
    ],
)
def test_forget_names_its_topic(text, topic):
    assert parse_intent(text) == Forget(topic)


@pytest.mark.parametrize("text", ["forget it", "forget about that", "忘了吧"])
def test_forgetting_it_names_nothing(text):
    assert parse_intent(text) == Forget("")


@pytest.mark.parametrize("text", ["forget everything", "忘掉全部"])
def test_forgetting_everything_is_marked_as_such(text):
    intent = parse_intent(text)
    assert isinstance(intent, Forget)
    assert intent.everything


@pytest.mark.parametrize(
    "text", ["", "   ", "hello", "你好", "Tell me a joke", "I like cats", "!!!", "delete the old branch"]
)
def test_the_rest_is_other(text):
    assert parse_intent(text) == Other()


@pytest.mark.parametrize(
    ("text", "kind", "filename"),
    [
        ("I live in Hangzhou", "user", "user_location.md"),
        ("我住在杭州", "user", "user_location.md"),
        ("I prefer concise Chinese answers", "feedback", "feedback_answer_style.md"),
        ("from now on answer in French", "feedback", "feedback_answer_style.md"),
        ("our deadline is 2025-03-01", "project", "project_schedule.md"),
        ("the graphs are at https://example.com/d/x", "reference", "reference_graphs_https_example_com.md"),
        ("../../etc/passwd matters", "project", "project_etc_passwd_matters.md"),
    ],
)
def test_a_fact_gets_type_and_file_name_by_rule(text, kind, filename):
    fact = describe_fact(text)
    assert (fact.type, fact.filename) == (kind, filename)


@given(st.text(max_size=300))
def test_any_text_has_an_intent_and_a_safe_file_name(text):
    intent = parse_intent(text)
    for fact in intent.facts if isinstance(intent, Remember) else ():
        assert "/" not in fact.filename
        assert "\0" not in fact.filename
        assert not fact.filename.startswith(".")
        assert len(fact.filename.encode()) < 255
        assert len(fact.hook.splitlines()) <= 1


@given(st.lists(st.sampled_from(["I live in Oslo", "my cat is Tom", "use tabs", "我住在杭州"]), min_size=1, max_size=5))
def test_statements_on_lines_of_their_own_come_back_as_they_are(statements):
    assert split_statements("\n".join(f"- {statement}" for statement in statements)) == statements


def test_a_long_message_is_parsed_in_one_go():
    assert len(remembered("Remember:\n" + "\n".join(f"I own {number} sheep" for number in range(5000)))) == 5000
