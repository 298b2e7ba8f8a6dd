"""News on their way between processes."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from waybook.record.news import LONGEST_PAYLOAD, News, newest, packed, topics_of, unpacked

NEWS = st.builds(
    News,
    st.sampled_from(["plan", "run"]),
    st.uuids().map(str),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)


@given(st.uuids(), st.lists(NEWS, max_size=300))
def test_news_arrive_as_they_were_sent_in_letters_short_enough(
    org_id: UUID, news: list[News]
) -> None:
    letters = list(packed("0a1b2c3d", org_id, news))
    assert all(0 < len(letter.encode()) <= LONGEST_PAYLOAD for letter in letters)
    packets = [packet for letter in letters if (packet := unpacked(letter))]
    assert [one for packet in packets for one in packet.news] == news
    assert all((p.sender, p.org_id) == ("0a1b2c3d", org_id) for p in packets)
    assert len(packets) == len(letters)


@given(st.text())
def test_no_text_upsets_the_reader(text: str) -> None:
    assert unpacked(text) is None
    sound = f"0a1b2c3d {UUID(int=7)} plan:{UUID(int=8)}:3!"
    packet = unpacked(f"{sound} {text}")
    assert packet is not None
    assert packet.news[0] == News("plan", str(UUID(int=8)), 3, standing=True)


def test_a_letter_for_an_org_that_cannot_be_is_nobodys() -> None:
    assert unpacked("0a1b2c3d ------------------------------------ run:1:1") is None


@given(NEWS, NEWS)
def test_two_news_of_one_plan_are_one_that_says_as_much(news: News, later: News) -> None:
    version = later.version
    other = news._replace(version=version, standing=later.standing)
    both = newest(news, other)
    assert both == newest(other, news)
    assert both.version == max(news.version, version)
    assert set(topics_of(both)) == {*topics_of(news), *topics_of(other)}
    assert newest(None, news) is news
