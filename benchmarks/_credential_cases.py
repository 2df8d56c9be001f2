"""A labelled set of texts with secrets and of texts that only look so, made anew from a seed.

No secret stands here: values are drawn at run time after the published shape of each kind, so that nothing in the
repository sets off a scanner. A case is a text and the secret in it; of a harmless one the secret is empty. The forms
are split in two by a fixed rule: rules may be written while looking at ``dev``, numbers are told of ``held-out``.
"""

import base64
import json
import random
import string
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha1, sha256
from typing import Final, Literal

Split = Literal["dev", "held-out"]

ALNUM: Final = string.ascii_letters + string.digits
UPPER: Final = string.ascii_uppercase + string.digits
LOWER: Final = string.ascii_lowercase + string.digits
URLSAFE: Final = ALNUM + "-_"
BASE64: Final = ALNUM + "+/"
HEX: Final = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Case:
    """One text: what it is, and the secret in it; empty when it is harmless."""

    form: str
    text: str
    secret: str = ""
    split: Split = "dev"


class Draw:
    """Random strings of given shapes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, alphabet: str, length: int) -> str:
        """Return ``length`` characters that are not all letters, as no real key's are."""
        while True:
            text = "".join(self.random.choices(alphabet, k=length))
            if length < 8 or alphabet.isdigit() or not (text.isdigit() or text.isalpha()):
                return text

    def password(self) -> str:
        """Return what people choose: a word with digits and signs, or what a password manager makes."""
        choose = self.random.choice
        word = choose("tiger monsoon Falcon sunset Coffee dragon Winter pepper orchid Rocket".split())
        return choose(
            [
                f"{word}{self.random.randrange(10, 9999)}{choose('!@#%&*')}",
                f"{word}-{choose('lamp river stone'.split())}-{self.random.randrange(100)}",
                self.of(ALNUM + "!@#%^*_+", self.random.randrange(10, 24)),
                f"P@ss{self.random.randrange(1000, 9999)}{word}",
            ]
        )

    def jwt(self) -> str:
        """Return a token of three parts, the first of which is a real header."""
        head = json.dumps({"alg": "HS256", "typ": "JWT"}, separators=(",", ":")).encode()
        body = json.dumps({"sub": self.of("0123456789", 5) + "a", "iat": 1_700_000_000}, separators=(",", ":")).encode()
        parts = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (head, body)]
        return ".".join([*parts, self.of(URLSAFE, 43)])

    def pem(self, kind: str) -> str:
        """Return a block as key files hold it."""
        lines = "\n".join(self.of(BASE64, 64) for _ in range(6))
        return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"


def tokens(draw: Draw) -> dict[str, str]:
    """Return one key of each provider, by its kind."""
    of = draw.of
    return {
        "github": draw.random.choice(["ghp_", "gho_", "ghs_", "ghu_", "ghr_"]) + of(ALNUM, 36),
        "github fine-grained": "github_" + "pat_" + of(ALNUM, 22) + "_" + of(ALNUM, 59),
        "gitlab": "glpat-" + of(URLSAFE.replace("-", ""), 20),
        "aws access key": "AKIA" + of(UPPER, 16),
        "openai": "sk-" + of(ALNUM, 48),
        "openai project": "sk-proj-" + of(URLSAFE, 74) + "T3Blbk" + "FJ" + of(URLSAFE, 74),
        "anthropic": "sk-ant-" + "api03-" + of(URLSAFE, 93) + "AA",
        "dashscope": "sk-" + of(HEX, 32),
        "openrouter": "sk-or-" + "v1-" + of(HEX, 64),
        "google api": "AIza" + of(URLSAFE, 35),
        "google oauth": "GOCSPX-" + of(URLSAFE, 28),
        "slack bot": "xoxb-" + of("0123456789", 11) + "-" + of("0123456789", 12) + "-" + of(ALNUM, 24),
        "slack app": "xapp-1-A" + of(UPPER, 10) + "-" + of("0123456789", 13) + "-" + of(HEX, 64),
        "slack webhook": "https://hooks.slack.com/services/T"
        + of(UPPER, 8)
        + "/B"
        + of(UPPER, 10)
        + "/"
        + of(ALNUM, 24),
        "stripe": "sk_live_" + of(ALNUM, 24),
        "stripe restricted": "rk_live_" + of(ALNUM, 24),
        "sendgrid": "SG." + of(URLSAFE, 22) + "." + of(URLSAFE, 43),
        "npm": "npm_" + of(ALNUM, 36),
        "pypi": "pypi-" + "AgEIcHlwaS5vcmc" + of(URLSAFE, 120),
        "hugging face": "hf_" + of(ALNUM, 34),
        "telegram bot": str(draw.random.randrange(10**9, 10**10)) + ":AA" + of(URLSAFE, 33),
        "docker hub": "dckr_pat_" + of(URLSAFE, 27),
        "digital ocean": "dop_v1_" + of(HEX, 64),
        "databricks": "dapi" + of(HEX, 32),
        "shopify": "shpat_" + of(HEX, 32),
        "linear": "lin_api_" + of(ALNUM, 40),
        "notion": "ntn_" + of(ALNUM, 46),
        "e2b": "e2b_" + of(HEX, 40),
        "groq": "gsk_" + of(ALNUM, 52),
        "replicate": "r8_" + of(ALNUM, 37),
        "supabase": "sbp_" + of(HEX, 40),
        "vault": "hvs." + of(URLSAFE, 95),
        "age": "AGE-SECRET-KEY-1" + of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
        "alibaba cloud": "LTAI" + of(ALNUM, 20),
        "grafana": "glsa_" + of(ALNUM, 32) + "_" + of(HEX, 8),
        "new relic": "NRAK-" + of(UPPER, 27),
        "postman": "PMAK-" + of(HEX, 24) + "-" + of(HEX, 34),
        "mailgun": "key-" + of(HEX, 32),
        "square": "sq0atp-" + of(URLSAFE, 22),
        "jwt": draw.jwt(),
    }


AROUND: Final = (
    "{}",
    "Use `{}` for the CI.",
    "- token for the bot: {}",
    "The key is {}, it expires in March.",
    'client = Client("{}")',
    "他的密钥是 {}，不要外传",
    "curl -H 'X-Api-Key: {}' https://api.example.com/v1/items",
)

# A form is told by its text; `{}` is the secret. What follows in brackets is what kind of value goes there.
LABELLED: Final = (
    ("password", "password: {}"),
    ("password", "Password = {}"),
    ("password", "- **Password:** {}"),
    ("password", "pwd: '{}'"),
    ("password", "passwd={}"),
    ("password", "The password for the staging database is {}"),
    ("password", "wifi password: {} (guest network)"),
    ("password", "Login: admin / password: {}"),
    ("password", "user=admin password={} host=db1"),
    ("password", '{{"user": "admin", "password": "{}"}}'),
    ("password", "DB_PASSWORD={}"),
    ("password", "export PGPASSWORD={}"),
    ("password", "db:\n  user: admin\n  password: {}\n  port: 5432"),
    ("password", "| password | {} |"),
    ("password", "passphrase: {}"),
    ("password", "密码：{}"),
    ("password", "密码是 {}"),
    ("password", "服务器登录密码为{}，端口 22"),
    ("password", "账号 admin，密码: {}"),
    ("password", "口令：{}"),
    ("password", "sshpass -p '{}' ssh root@10.0.0.4"),
    ("password", "curl -u admin:{} https://ci.example.com/api"),
    ("password", "mysql -u root -p{} shop"),
    ("password", "postgres://app:{}@db.internal:5432/shop"),
    ("password", "redis://:{}@cache.internal:6379/0"),
    ("password", "mongodb+srv://app:{}@cluster0.abcde.mongodb.net/?retryWrites=true"),
    ("password", "https://deploy:{}@git.example.com/team/repo.git"),
    ("password", "Server=db1;Database=shop;User Id=sa;Password={};"),
    ("password", "jdbc:mysql://db1:3306/shop?user=app&password={}"),
    ("password", "spring.datasource.password={}"),
    ("token", "API key: {}"),
    ("token", 'api_key = "{}"'),
    ("token", "OPENWEATHER_API_KEY={}"),
    ("token", "export SERVICE_TOKEN={}"),
    ("token", "export ANALYTICS={}"),
    ("token", "Authorization: Bearer {}"),
    ("token", "access_token: {}"),
    ("token", "client_secret: {}"),
    ("token", "secret={}"),
    ("token", "X-Auth-Token: {}"),
    ("token", "auth token for the printer: {}"),
    ("token", "https://api.example.com/feed?access_token={}"),
    ("token", "https://maps.example.com/js?key={}&v=3"),
    ("token", "令牌：{}"),
    ("token", "API 密钥为 {}"),
    ("token", "accessKeySecret: {}"),
    ("token", '"signing_key": "{}"'),
    ("token", "appsecret={}"),
    ("token", "//registry.example.com/:_authToken={}"),
    ("token", "aws_secret_access_key = {}"),
    ("azure", "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={};EndpointSuffix=core.windows.net"),
    ("basic", "Authorization: Basic {}"),
    ("uuid", "HEROKU_API_KEY={}"),
    ("pin", "PIN: {}"),
    ("pin", "门禁密码：{}"),
    ("words", "seed phrase: {}"),
    ("words", "助记词：{}"),
    ("password", "ssh root@10.0.0.4, pw {}"),
    ("password", "pass={}"),
    ("password", "credentials: admin/{}"),
    ("password", "login with admin:{}"),
    ("password", "Passwort: {}"),
    ("password", "Contraseña: {}"),
    ("password", "mot de passe : {}"),
    ("password", "パスワード：{}"),
    ("password", "管理员密码改成了 {}"),
    ("password", "密码改为：{}"),
    ("password", "新密码 {}"),
    ("password", "the new password is now {}"),
    ("password", "password changed to {}"),
    ("password", "We set the admin password to {} last week."),
    ("token", "token {}"),
    ("token", "key={}"),
    ("token", "X-API-KEY {}"),
    ("token", "HF token -> {}"),
    ("token", "my weather key: {}"),
    ("token", "secret_key_base: {}"),
    ("token", "Cookie: session={}"),
    ("token", "encryption_key = b'{}'"),
    ("password", "kubectl create secret generic db --from-literal=password={}"),
    ("password", "docker login -u me -p {}"),
    ("password", "redis-cli -a {}"),
    ("password", "psql 'host=db user=app password={}'"),
    ("password", "ftp://me:{}@files.example.com"),
    ("password", "machine api.example.com login me password {}"),
    ("token", '<add key="ApiKey" value="{}"/>'),
    ("password", 'password="{}"'),
    ("password", "密码 {}"),
    ("password", "  password   {}"),
    ("token", "the API token you need is {}"),
    ("token", "[auth]\ntoken = {}"),
    ("password", "`{}` is the root password"),
    ("token", "OSS AccessKey Secret {}"),
    ("token", "环境变量 DEEPSEEK_KEY={}"),
    ("password", "WiFi 密码（访客）：{}"),
    ("token", "Bearer {}"),
)


def _value(kind: str, draw: Draw) -> str:
    match kind:
        case "password":
            return draw.password()
        case "azure":
            return draw.of(BASE64, 86) + "=="
        case "basic":
            return base64.b64encode(f"admin:{draw.of(ALNUM, 14)}".encode()).decode()
        case "uuid":
            return str(uuid.UUID(int=draw.random.getrandbits(128), version=4))
        case "pin":
            return str(draw.random.randrange(1000, 999_999))
        case "words":
            words = "abandon ocean tiger crystal velvet museum ladder banana rocket winter silver piano".split()
            return " ".join(draw.random.sample(words, k=12))
        case _:
            return draw.of(draw.random.choice([ALNUM, HEX, URLSAFE.replace("-", "")]), draw.random.choice([20, 32, 40]))


def secret_cases(*, seed: int = 1, rounds: int = 6) -> Iterator[Case]:
    """Yield texts with one secret each."""
    draw = Draw(seed)
    for turn in range(rounds):
        for at, (kind, value) in enumerate(tokens(draw).items()):
            around = AROUND[(at + turn) % len(AROUND)]
            yield Case(f"token: {kind}", around.format(value), value, _split(at))
        for at, (kind, form) in enumerate(LABELLED):
            value = _value(kind, draw)
            if "://" in form:
                value = value.translate(str.maketrans("@#%/:?^&+", "_________"))
            if "psql" in form or "mysql -u" in form or "{};" in form or "={} " in form or "&password" in form:
                value = value.translate(str.maketrans("&;", "__"))
            yield Case(f"label: {form}", form.format(value), value, _split(at))
        for at, kind in enumerate(
            ("RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY",
             "PGP PRIVATE KEY BLOCK")
        ):  # fmt: skip
            block = draw.pem(kind)
            yield Case(f"block: {kind}", f"The deploy key:\n\n{block}\n", block, _split(at))


HARMLESS: Final = (
    "Fixed in commit {sha1}.",
    "See {short} and {short2} for the change.",
    "sha256:{sha256}",
    "restored version {sha256}",
    "version: {sha256}",
    "image: registry.example.com/app@sha256:{sha256}",
    "md5 {md5}  data.tar.gz",
    "The tenant id is {uuid}.",
    "trace_id={uuid} span={short}",
    "session: {uuid}",
    "etag: \"{md5}\"",
    "![logo](data:image/png;base64,{base64})",
    '"integrity": "sha512-{b64short}=="',
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43} me@laptop",
    "{public_pem}",
    "{certificate}",
    "arn:aws:iam::123456789012:role/deploy",
    "git@github.com:team/repo.git",
    "https://user@example.com/path?id={short}",
    "https://example.com/a/{uuid}?ref={sha1}",
    "postgres://localhost:5432/shop",
    "postgres://user:password@localhost/db is the form of the address",
    "redis://cache.internal:6379/0",
    "password = get_password(user)",
    "password = os.environ[\"DB_PASSWORD\"]",
    "api_key=settings.api_key,",
    "token = self._token or await refresh_token()",
    "def login(user: str, password: str) -> Token:",
    "password: string (required)",
    "if token != expected_token:\n    raise PermissionError",
    "const apiKey = process.env.API_KEY;",
    "OPENAI_API_KEY=<your key>",
    "OPENAI_API_KEY=sk-...",
    "export OPENAI_API_KEY=your-api-key-here",
    "export TOKEN=${{GITHUB_TOKEN}}",
    "export TOKEN=$(vault read -field=token secret/app)",
    "password: ********",
    "password: [redacted]",
    "token: {{{{ secrets.DEPLOY_TOKEN }}}}",
    "password: changeme",
    "api_key: xxxxxxxxxxxxxxxx",
    "export PATH=/usr/local/bin:$PATH",
    "export EDITOR=vim",
    "export PYTHONPATH=/srv/app/lib2:/srv/app/src",
    "max_tokens: 8192",
    "token budget: 4000",
    "memory_max_tokens=4000",
    "tokens: 12345",
    "The token limit is 128000.",
    "Passwords are kept in 1Password, vault Team.",
    "password: see 1Password",
    "The password is stored in the vault under secret/data/app.",
    "API key: ask Mei, or look in Vault at kv/team/api-key",
    "Password policy: at least 12 characters, one digit",
    "The password is rotated every 90 days.",
    "The password must be changed before 2026-03-05.",
    "secret: none",
    "Secret santa: Thursday at 15:00",
    "The key is to keep meetings short.",
    "Key: C major",
    "primary key: user_id2",
    "cache key: user:{short}",
    "sort_key: created_at_v2",
    "public_key: {b43}=",
    "key: value pairs",
    "Keyboard shortcut: Ctrl+Shift+P",
    "token_url: https://auth.example.com/oauth2/token",
    "password_hash = bcrypt.hashpw(data, salt)",
    "PASSWORD_MIN_LENGTH=12",
    "TOKEN_FILE=/run/secrets/token",
    "secret_name: prod/db2/password",
    "api_key_id: 42",
    "Bearer token authentication is used.",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "curl -u user:password https://example.com",
    "PIN: pinned to version 4.2.1",
    "pin 4 is ground",
    "He passed: 1200 points",
    "passport: renewed 2026",
    "pass: 42 tests",
    "密码在 1Password 里，问梅。",
    "密码需要至少 12 位。",
    "忘记密码时联系管理员。",
    "密码：见 1Password",
    "密钥每 90 天轮换一次。",
    "令牌桶限流：每秒 100 次",
    "用户喜欢绿茶，回答请用中文。",
    "口令：无",
    "密码是保存在保险库里的。",
    "The wifi at the office is called Blue2024.",
    "Model: gpt-4o-mini-2024-07-18, scikit-learn 1.4.2",
    "sk-learn-style estimators with fit/predict",
    "Order 4111-2222 shipped, tracking 1Z999AA10123456784",
    "Phone: +86 138 0013 8000",
    "class TokenBucketRateLimiterConfigurationFactoryBean2:",
    "color: #a3f9c2; background: #0b1e3d",
    "0x7ffee3b2a9c8 in __libc_start_main+0xe7",
    "assert response.json()[\"token\"] is not None",
    "re.compile(r\"(?P<token>[A-Za-z0-9_-]{{20,}})\")",
    "const passwordInput = document.querySelector('#password');",
    "<input type=\"password\" name=\"password\" id=\"password1\">",
    "--password-file /run/secrets/db",
    "The author token is ignored by the parser, the secret is patience.",
    "Tokenizer: cl100k_base",
    "auth: OAuth2 with PKCE",
    "next_page_token: null",
    "{long_base64}",
    'We passed 42 tests, 3 skipped.',
    'The passkey rollout starts 2026-05-01.',
    'Token usage: 12k in, 3k out',
    'token: BTC2025',
    'secret ingredient: paprika2',
    'The secret of v2.3.1 is caching.',
    'password reset flow: /auth/v2/reset',
    'Password field id: login-pw-2',
    'Set password via `passwd` on host2.',
    'The login password is the same as for the VPN.',
    'api key rotation: every 90d',
    'API key: stored in .env.local2',
    'key decision: ship v2 on 2026-03-05',
    'Key contact: mei2@example.com',
    'access key: Alt+Shift+3',
    'secret key: kept by finance',
    'token ring 16Mbit',
    'pin: GPIO17',
    'Pin: 3.3V',
    'auth: basic',
    'Basic auth with user app2024service',
    'password: as in the wiki page Ops/Access2',
    'password: unchanged since v2',
    '密码：和去年一样',
    '密码长度：12位以上',
    '令牌有效期：7200秒',
    'token有效期: 2h30m',
    '密钥文件：/etc/ssl/key2.pem',
    'password_reset_token_ttl = 3600s',
    'NEXT_PUBLIC_API_KEY_NAME=weather2',
    'export NODE_OPTIONS=--max-old-space-size=4096',
    'export JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64',
    'export LANG=en_US.UTF-8',
    'export GOPROXY=https://proxy.golang.org,direct',
    'export AWS_PROFILE=staging-eu-west-1',
    'export KUBECONFIG=$HOME/.kube/config-prod2',
    'export TERM=xterm-256color',
    'export CUDA_VISIBLE_DEVICES=0,1,2,3',
    'export MODEL=claude-3-5-sonnet-20241022',
    'token_type: Bearer',
    'passenger: seat 14C',
    'passphrase: see envelope 3',
    'session token lasts 30min',
    'The API token expires on 2026-09-01.',
    'The token is base64url encoded, 32 bytes.',
    'password = input("Password: ")',
    'password == hashlib.sha256(raw).hexdigest()',
    'token = tokens[i+1]',
    'secret = Secret(name="db2")',
    '"token": {{"type": "string", "minLength": 8}}',
    'api_key: Optional[str] = None',
    'passwd: files sss2',
    'key: Optional[int64]',
    '?page=2&key=created_at2',
    'https://example.com/?token=abc',
    'git checkout -p feature2',
    'cp -p file1 file2 && mysql -p',
    'ls --token-file=a1',
)  # fmt: skip


def harmless_cases(*, seed: int = 1, rounds: int = 6) -> Iterator[Case]:
    """Yield texts without a secret."""
    draw = Draw(seed + 1_000)
    for _ in range(rounds):
        for at, form in enumerate(HARMLESS):
            text = form.format(
                sha1=sha1(draw.of(ALNUM, 9).encode(), usedforsecurity=False).hexdigest(),
                short=draw.of(HEX, 7) + "1",
                short2=draw.of(HEX, 7) + "a",
                sha256=sha256(draw.of(ALNUM, 9).encode()).hexdigest(),
                md5=draw.of(HEX, 32),
                uuid=uuid.UUID(int=draw.random.getrandbits(128), version=4),
                base64=draw.of(BASE64, 600),
                b64short=draw.of(BASE64, 86),
                b43=draw.of(BASE64, 43),
                public_pem=draw.pem("PUBLIC KEY"),
                certificate=draw.pem("CERTIFICATE"),
                long_base64="\n".join(draw.of(BASE64, 76) for _ in range(5)),
            )
            yield Case(f"harmless: {form[:60]}", text, split=_split(at))


def _split(at: int) -> Split:
    return "held-out" if at % 3 == 2 else "dev"
