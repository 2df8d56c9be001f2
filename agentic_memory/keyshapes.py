"""Secrets that are told by their own shape, whatever stands around them: keys of the common providers and the like.

Each shape has an anchor, a string that must occur; searching for it first costs next to nothing where there is none.
"""

import re
from typing import Final, NamedTuple


class KeyShape(NamedTuple):
    """How one kind of secret looks. The group ``secret`` is the secret; without it the whole match is."""

    kind: str
    anchor: str
    pattern: re.Pattern[str]


# Not inside a longer word: hashes and base64 hold any short run of characters sooner or later.
_BEFORE: Final = r"(?<![A-Za-z0-9_+/=-])"
_AFTER: Final = r"(?![A-Za-z0-9_/=-])"


def _shape(kind: str, anchor: str, rest: str) -> KeyShape:
    return KeyShape(kind, anchor, re.compile(_BEFORE + re.escape(anchor) + rest + _AFTER))


def _free(kind: str, anchor: str, pattern: str) -> KeyShape:
    return KeyShape(kind, anchor, re.compile(pattern))


KEY_SHAPES: Final = (
    *(_shape("github-token", f"gh{letter}_", "[A-Za-z0-9]{36,251}") for letter in "pousr"),
    _shape("github-token", "github_pat_", "[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _shape("gitlab-token", "glpat-", r"[\w-]{20,}"),
    *(_shape("aws-key", prefix, "[A-Z0-9]{16}") for prefix in ("AKIA", "ASIA")),
    # OpenAI and the many providers that copied its prefix; a name such as sk-learn-tools has no digits in its parts.
    _shape("api-key", "sk-", r"(?:[A-Za-z]{2,8}\d{0,2}-)*(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9_-]{20,}"),
    _shape("google-key", "AIza", r"[\w-]{35}"),
    _shape("google-key", "GOCSPX-", r"[\w-]{28}"),
    _shape("google-key", "ya29.", r"[\w-]{20,}"),
    *(_shape("slack-token", prefix, r"[A-Za-z0-9-]{20,}") for prefix in ("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-")),
    _shape("slack-token", "xapp-", r"[A-Za-z0-9-]{30,}"),
    _free(
        "webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>T\w{6,}/[AB]\w{6,}/\w{20,})",
    ),
    _free("webhook", "discord", r"discord(?:app)?\.com/api/webhooks/(?P<secret>\d{15,}/[\w-]{40,})"),
    _free("webhook", "oapi.dingtalk.com", r"oapi\.dingtalk\.com/robot/send\?access_token=(?P<secret>[0-9a-f]{40,})"),
    _free("webhook", "/open-apis/bot/", r"/open-apis/bot/v2/hook/(?P<secret>[0-9a-f-]{30,})"),
    _free(
        "webhook", "qyapi.weixin.qq.com", r"qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=(?P<secret>[0-9a-f-]{30,})"
    ),
    *(_shape("stripe-key", prefix, "[A-Za-z0-9]{16,}") for prefix in ("sk_live_", "rk_live_", "sk_test_", "whsec_")),
    _shape("sendgrid-key", "SG.", r"[\w-]{22}\.[\w-]{43}"),
    _shape("mailgun-key", "key-", "[0-9a-f]{32}"),
    _shape("npm-token", "npm_", "[A-Za-z0-9]{36}"),
    _shape("pypi-token", "pypi-AgE", r"[\w-]{50,}"),
    _shape("huggingface-token", "hf_", "[A-Za-z]*(?=[A-Za-z]*[0-9])[A-Za-z0-9]{30,}|hf_[A-Za-z]{34}"),
    _free("telegram-token", ":AA", rf"{_BEFORE}\d{{8,10}}:AA[\w-]{{33}}{_AFTER}"),
    _free("discord-token", ".", rf"{_BEFORE}[MNO][A-Za-z0-9]{{23,25}}\.[\w-]{{6}}\.[\w-]{{27,38}}{_AFTER}"),
    _shape("docker-token", "dckr_pat_", r"[\w-]{20,}"),
    *(_shape("digitalocean-token", prefix, "[0-9a-f]{64}") for prefix in ("dop_v1_", "doo_v1_", "dor_v1_")),
    _shape("databricks-token", "dapi", "[0-9a-f]{32}(?:-[0-9])?"),
    *(_shape("shopify-token", prefix, "[0-9a-fA-F]{32}") for prefix in ("shpat_", "shpca_", "shppa_", "shpss_")),
    _shape("linear-key", "lin_api_", "[A-Za-z0-9]{32,}"),
    _shape("notion-token", "ntn_", "[A-Za-z0-9]{40,}"),
    _shape("e2b-key", "e2b_", "[0-9a-f]{40}"),
    _shape("groq-key", "gsk_", "[A-Za-z0-9]{40,}"),
    _shape("replicate-token", "r8_", "[A-Za-z0-9]{30,}"),
    _shape("supabase-key", "sbp_", "[0-9a-f]{40}"),
    _shape("vault-token", "hvs.", r"[\w-]{24,}"),
    _shape("age-key", "AGE-SECRET-KEY-1", "[0-9A-Z]{58}"),
    _shape("alibaba-key", "LTAI", "[A-Za-z0-9]{12,26}"),
    _shape("tencent-key", "AKID", "[A-Za-z0-9]{32}"),
    _shape("grafana-token", "glsa_", "[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    _shape("newrelic-key", "NRAK-", "[A-Z0-9]{27}"),
    _shape("postman-key", "PMAK-", "[0-9a-f]{24}-[0-9a-f]{34}"),
    _shape("square-token", "sq0", r"(?:atp|csp)-[\w-]{22,43}"),
    _shape("atlassian-token", "ATATT3", r"[\w=-]{60,}"),
    _shape("perplexity-key", "pplx-", "[A-Za-z0-9]{40,}"),
    _shape("xai-key", "xai-", "[A-Za-z0-9]{60,}"),
    _free("jwt", "eyJ", rf"{_BEFORE}eyJ[\w-]{{10,}}\.eyJ[\w-]{{10,}}\.[\w-]{{10,}}{_AFTER}"),
    _free("azure-key", "AccountKey=", r"AccountKey=(?P<secret>[A-Za-z0-9+/]{40,}={0,2})"),
    # To the end marker, or to the end of the text: a key that was cut off is a key all the same.
    _free(
        "private-key",
        "PRIVATE KEY",
        r"-----BEGIN (?:[A-Z0-9]+ ){0,2}PRIVATE KEY(?: BLOCK)?-----[\s\S]{20,}?"
        r"(?:-----END (?:[A-Z0-9]+ ){0,2}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
)
