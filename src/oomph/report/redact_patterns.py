"""What counts as private in the text of a log: the patterns of `redact`, and the words that stay.

Every pattern is linear: repetitions are bounded or start where the text before them cannot be part of them.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# -- secrets ----------------------------------------------------------------------------------------------------------

#: Tokens that are known by their beginning: Hugging Face, OpenAI-like, GitHub, GitLab, AWS, Google, Slack, NVIDIA,
#: npm, PyPI, Replicate, Docker Hub, DigitalOcean, SendGrid, Stripe, Databricks, W&B, JSON web tokens.
TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_(?=[a-z]{0,60}[A-Z0-9])[A-Za-z0-9]{8,}|api_org_[A-Za-z0-9]{8,}"
    r"|(?:sk|pk|rk)[-_](?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{8,}"
    r"|gh[oprsu]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}|gl(?:pat|dt|oas|soat|rt|cbt|ptt|ft|imt|agent)-[A-Za-z0-9_-]{8,}"
    r"|(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,}"
    r"|AIza[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{10,}|GOCSPX-[A-Za-z0-9_-]{8,}"
    r"|xox[a-z]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}"
    r"|nvapi-[A-Za-z0-9_-]{8,}|npm_[A-Za-z0-9]{16,}|pypi-[A-Za-z0-9_-]{16,}|r8_[A-Za-z0-9]{16,}"
    r"|dckr_pat_[A-Za-z0-9_-]{8,}|dop_v1_[a-f0-9]{16,}|dapi[a-f0-9]{24,}|wandb_v1_[A-Za-z0-9_]{8,}"
    r"|SG\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r"|eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{4,}){0,4}"
    r")"
)
#: 32 hexadecimal digits or more in one word (W&B and Comet keys, digests), and UUIDs.
HEX = re.compile(r"(?<![A-Za-z0-9])(?:0x)?[0-9a-fA-F]{32,}(?![A-Za-z0-9])")
UUID = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9A-Za-z])")
#: One long word; `redact` takes it for a secret when its letters and digits are mixed like one.
LONG_WORD = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z0-9+]{32,}={0,2}(?![A-Za-z0-9_])")
#: `Bearer x`, `Authorization: Basic x`.
BEARER = re.compile(r"(?i)(?<![A-Za-z0-9])(bearer|basic|digest)(\s{1,4})([A-Za-z0-9._~+/=-]{6,})")
_NAME = (
    r"(?:token|secret|passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key"
    r"|credentials?|authorization|cookie|auth[_-]?key|[_-]auth|wandb[_-]key|sas[_-]?key|account[_-]?key)"
)
#: A placeholder, a quoted string, or what stands up to the next blank; commas, quotes and brackets inside belong to it.
_VALUE = (
    r"(?:<[a-z]{2,6}(?:-[0-9]{1,6})?>|\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?"
    r"|(?:[^\s\"'`,;&()\[\]{}<>]|[\"'`,;()\[\]{}<>](?=[A-Za-z0-9]))+)"
)
#: The value after a name that says it is secret: name=value, "name": "value", name => value.
SECRET_VALUE = re.compile(
    rf"(?i)(?<![A-Za-z0-9_-])(?P<name>[A-Za-z0-9_-]{{0,60}}?{_NAME})"
    rf"(?P<sign>[\"']?\s{{0,4}}(?:=>|[:=])\s{{0,4}})(?P<value>{_VALUE})"
)
#: The same as an option of a command line: --name value.
SECRET_OPTION = re.compile(
    rf"(?i)(?<![A-Za-z0-9_-])(?P<name>--?[A-Za-z0-9_-]{{0,60}}?{_NAME})"
    rf"(?P<sign>[\"']?,?\s{{1,4}})(?P<value>(?!-){_VALUE})"
)
#: Short names of passwords: only as an option, or with a sign.
SHORT_SECRETS = (
    re.compile(
        r"(?i)(?<![A-Za-z0-9_-])(?P<name>--?(?:[A-Za-z0-9_-]{0,60}[_-])?(?:pw|pass|passwd))"
        rf"(?P<sign>[\"']?(?:,?\s{{1,4}}|\s{{0,4}}=\s{{0,4}}))(?P<value>(?!-){_VALUE})"
    ),
    re.compile(
        rf"(?i)(?<![A-Za-z0-9-])(?P<name>pw)(?P<sign>[\"']?\s{{0,4}}[:=]\s{{0,4}})(?P<value>{_VALUE})"
    ),
)
#: A private key, from its first to its last line, or to the end of the text.
PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?s:.)*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?s:.)*)"
)
#: A line of such a block that stands alone.
BASE64_LINE = re.compile(r"(?m)^([ \t|>]{0,20})([A-Za-z0-9+/]{48,80}={0,2})(?=[ \t\r]{0,20}$)")
#: Names of tokenizer and training settings that end like a secret's name and are none.
NOT_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_-])(?:pad|eos|bos|unk|sep|cls|mask|image|video|audio|special|per|max|num|stop|end|start|next|last"
    r"|first|each|extra|additional|new|boi|eoi)[_-]?token$"
)
#: Values that hide nothing.
NOT_SECRET_VALUE = frozenset(("none", "null", "true", "false", "''", '""', "<secret>"))

# -- people, machines, places -----------------------------------------------------------------------------------------

#: Any address with a scheme; those of `PUBLIC_URL` stay.
URL = re.compile(r"(?i)(?<![a-z0-9])[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>|\\^`{}]+")
#: Documentation that PyTorch and CUDA print in their messages.
PUBLIC_URL = re.compile(
    r"https?://(?:(?:docs\.|dev-discuss\.)?pytorch\.org|docs\.nvidia\.com|developer\.nvidia\.com|docs\.python\.org"
    r"|huggingface\.co/docs)(?=[/#?.,;:)\]\s]|$)[^\s\"'<>@?|\\^`{}]*"
)
EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,300}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
#: user@machine without a dot, as prompts, ssh and scp print it.
USER_AT_HOST = re.compile(
    r"(?<![A-Za-z0-9._%+@-])([A-Za-z_][A-Za-z0-9._-]{1,31})@([A-Za-z][A-Za-z0-9-]{1,62})(?=[:\s~\]/]|$)"
)
#: scp and git remotes: user@host:path.
REMOTE = re.compile(r"(?<![A-Za-z0-9._%+@-])[A-Za-z0-9._-]{1,32}@[A-Za-z0-9.-]{1,253}:[^\s\"'<>]{2,}")

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
#: Four octets; not after what makes them a version ("==9.1.0.70", "v1.2.3.4", "cudnn 8.9.2.26").
IPV4 = re.compile(
    rf"(?<![0-9A-Za-z._])(?:{_OCTET}\.){{3}}{_OCTET}(?![0-9A-Za-z_]|\.[0-9]|-(?:microsoft|generic|azure|aws|g[ck][ep]|amzn))"
)
VERSION_BEFORE = re.compile(r"(?i)(?:version|cudnn|driver|nccl|cuda|release|[=~<>]=)\W{0,3}\Z")
IPV6 = re.compile(
    r"(?<![0-9A-Za-z:.])(?:(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}"
    r"|(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6}|fe80::[0-9a-fA-F]{0,4})(?![0-9A-Za-z:])"
)
MAC = re.compile(r"(?<![0-9A-Za-z:])(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}(?![0-9A-Za-z:])")
#: Names in which the network reads "public": pages that logs often name.
PUBLIC_HOSTS = _words(
    "pytorch.org docs.pytorch.org download.pytorch.org github.com huggingface.co hf.co wandb.ai nvidia.com "
    "docs.nvidia.com developer.nvidia.com python.org docs.python.org readthedocs.io arxiv.org"
)
#: Dotted names that end like a machine's, with what follows them in an address. Country codes need three parts, and
#: those that are also file endings (py, pt, sh, so, rs, md, pl, cc) are not here.
FQDN = re.compile(
    r"(?<![A-Za-z0-9_@./\\-])((?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,8}"
    r"(?:com|org|net|edu|gov|mil|int|internal|intranet|local|localdomain|lan|corp|cluster|hpc|cloud|priv|ai|io|dev)"
    r"|(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){2,8}"
    r"(?:eu|uk|de|fr|ch|at|nl|be|se|dk|fi|cz|es|ie|jp|cn|kr|tw|hk|sg|ca|us|au|nz|br|ru|il))"
    r"(?![A-Za-z0-9_-]|\.[A-Za-z0-9]|[(\[])(/(?:[^\s\"'<>]|<[a-z]{2,6}(?:-[0-9]{1,6})?>)*)?"
)
#: Where a machine's name stands: torchelastic's table, environment variables, srun, slurmstepd, NCCL, Ray, rendezvous.
_HOST = r"([A-Za-z][A-Za-z0-9._-]{1,62})"
_HOST_SETTINGS = (
    "host|hostname|host[_-]name|nodename|node[_-]name|nodelist|machine|fqdn|server|slurmd_nodename|slurm_(?:job_)?nodelist"
    "|slurm_submit_host|slurm_launch_node_ipaddr|master[_-]addr|master[_-]address|main[_-]process[_-]ip|rdzv[_-]endpoint|rdzv_host"
    "|head_node(?:_ip)?|node_ip_address|computername"
)
HOST_CONTEXTS = (
    re.compile(
        rf"(?i)(?<![a-z0-9_])(?:{_HOST_SETTINGS})[\"']?\s{{0,8}}[:=]\s{{0,8}}[\"']?([A-Za-z0-9][A-Za-z0-9._\[\],-]{{1,120}})"
    ),
    re.compile(
        rf"(?i)(?<![a-z0-9_-])--?(?:[a-z0-9]{{1,20}}[_-])?(?:{_HOST_SETTINGS}|node)[\"']?,?\s{{1,4}}[\"']?"
        rf"{_HOST}"
    ),
    re.compile(
        rf"(?:srun|slurmstepd|prterun|mpirun|orted|pdsh)(?:-[\w.-]{{1,64}})?: (?:error: |info: )?{_HOST}(?=: )"
    ),
    re.compile(rf"slurmstepd-{_HOST}:"),
    re.compile(rf"(?:STEP|JOB) [0-9.A-Za-z_]{{1,40}} ON {_HOST}"),
    re.compile(rf"(?<![\w.:/-]){_HOST}:[0-9]{{1,9}}:[0-9]{{1,9}} \[[0-9]{{1,3}}\]"),
    re.compile(rf"(?i)\b(?:on (?:node|host|machine)|hostname is|running on host) {_HOST}"),
)
#: name:port where the name has a digit, as machines of clusters do.
HOST_PORT = re.compile(
    r"(?i)(?<![a-z0-9_./\\:<-])((?=[a-z-]{0,40}[0-9])[a-z][a-z0-9-]{1,40})(?=:[0-9]{4,5}(?![0-9a-z]))"
)
#: Numbered things of a training job, which are no machines.
NUMBERED_THING = re.compile(
    r"(?i)(?:rank|local_?rank|step|epoch|iter|gpu|cuda|device|hip|xpu|npu|layer|stage|expert|block|worker|shard|chunk"
    r"|part|sha|md|line|pid|port|int|uint|float|bf|fp|tf|h|a|v|l|t|b|rtx|mi|gfx|sm|sm_|py|cu|rocm|checkpoint|ckpt)"
    r"-?[0-9]{1,9}\Z"
)
HOST_WORD = re.compile(
    r"(?i)(?<![A-Za-z0-9_./\\<-])(?:ip-[0-9]{1,3}(?:-[0-9]{1,3}){3}|(?:(?:gpu|cpu|hpc|cn|dl|ml|ai)-)?(?:node|host|dgx|hgx|gpunode|compute|login)-?[a-z]{0,8}-?[0-9]{1,6}"
    r"(?:-[a-z0-9]{1,12})?)(?![A-Za-z0-9_])"
)

#: Folders below which the next name is a person.
_HOMES = (
    r"(?:/(?:home|Users|users|scratch|export/home|var/home|gpfs/home|lustre/home|mnt/home|nfs/home|data/home"
    r"|home/users|scratch/users|scratch/user|gpfs/users|lustre/users|gpfs/scratch|lustre/scratch|mnt/users|nfs/users"
    r"|fsx/home|fsx/users|work/users|storage/users|data/users|global/homes/[a-z]|u/home/[a-z]))/"
)
HOME = re.compile(rf"(?<![A-Za-z0-9_.])(?:/mnt/[a-z])?{_HOMES}([^\s/\\\"'<>|:;,()\[\]{{}}]{{1,64}})")
WINDOWS_HOME = re.compile(
    r"(?i)(?<![A-Za-z0-9])[a-z]:(?:\\{1,2}|/)(?:users|documents and settings)(?:\\{1,2}|/)"
    r"([^\\/:*?\"<>|\n]{1,64})(?=[\\/])"
)
WSL_HOME = re.compile(r"/mnt/[a-z]/Users/([^\s/\\\"'<>|:]{1,64})")
USER_CONTEXTS = (
    re.compile(
        r"(?i)(?<![a-z0-9_])(?:user|username|user_name|logname|slurm_job_user|owner|entity|submitted by|uname)"
        r"[\"']?\s{0,4}[:=]\s{0,4}[\"']?([A-Za-z_][A-Za-z0-9._-]{1,31})"
    ),
    re.compile(
        r"(?i)(?<![a-z0-9_-])--?(?:[a-z0-9]{1,20}[_-])?(?:user|username|user[_-]name|login|owner|uname)[\"']?,?\s{1,4}"
        r"[\"']?([A-Za-z_][A-Za-z0-9._-]{0,31})"
    ),
    re.compile(r"uid=[0-9]{1,10}\(([A-Za-z_][A-Za-z0-9._-]{1,31})\)"),
    re.compile(r"(?<![\w/])~([A-Za-z_][A-Za-z0-9._-]{1,31})/"),
)

_PLACEHOLDER = r"<[a-z]{2,6}(?:-[0-9]{1,6})?>"
#: A whole quoted path, blanks and all.
QUOTED_PATH = re.compile(r"([\"'])((?:/(?=[^/\s\"'])|[A-Za-z]:[\\/]|\\\\(?=[A-Za-z0-9]))[^\"'\n]*)\1")
#: An absolute path of two parts or more that stands free.
POSIX_PATH = re.compile(
    r"(?<![A-Za-z0-9_.<>/~\\-])"
    rf"/(?:[^\s/\"'<>|:;,()\[\]{{}}=`*]|{_PLACEHOLDER})+/(?:[^\s\"'<>|:;,()\[\]{{}}=`]|{_PLACEHOLDER})*"
)
#: A path in somebody's home folder.
TILDE_PATH = re.compile(
    rf"(?<![A-Za-z0-9_.<>/~\\-])~[A-Za-z0-9._-]{{0,32}}/(?:[^\s\"'<>|:;,()\[\]{{}}=`*]|{_PLACEHOLDER})*"
)
WINDOWS_PATH = re.compile(
    rf"(?<![A-Za-z0-9])(?:[A-Za-z]:[\\/]|\\\\(?=[A-Za-z0-9<]))(?:[^\s\"'<>|:;,()*?`]|{_PLACEHOLDER})*"
)
#: From here on a path is a library's and stays readable.
LIBRARY = re.compile(r"(?:^|[\\/])(?:site-packages|dist-packages)[\\/]+")
#: Anything with a slash or backslash inside, as a message about a file has it.
ANY_PATH = re.compile(r"(?<![^\s\"'(,;])[^\s\"'(),;/\\]{0,255}[/\\][^\s\"'(),;]{1,4000}(?<![:.])")
#: Places of the system, the same on every machine.
SYSTEM = re.compile(r"/(?:dev|proc|sys)(?:/|$)")
#: A file's name that says what kind of file it is; other last names may be a person's or a project's.
FILE_NAME = re.compile(
    r"(?i)[^/\\]*\.(?:py|pyc|pyi|pyx|ipynb|c|cc|cpp|cxx|cu|cuh|h|hpp|rs|go|js|so|dll|exe|whl|sh|bash|zsh|slurm|sbatch|sub"
    r"|log|out|err|txt|md|rst|html|json|jsonl|ndjson|yaml|yml|toml|cfg|conf|ini|env|xml|csv|tsv|pt|pth|bin|safetensors"
    r"|ckpt|gguf|onnx|npy|npz|pkl|pickle|h5|hdf5|parquet|arrow|tar|zip|gz|zst|xz|bz2|lz4|model|tiktoken|vocab|idx|db"
    r"|sqlite|nsys-rep|qdrep|pdf|png|jpg|jpeg|gif|lock|tmp)(?:\.[0-9]{1,6}){0,3}\Z"
)
#: Folders of a per-rank layout: numbers and attempts say which rank wrote a file, and nothing about anybody.
RANK_FOLDER = re.compile(r"(?:attempt_[0-9]{1,4}|rank[_-]?[0-9]{1,6}|[0-9]{1,4}|stdout|stderr)\Z")

#: Words that are no person and no machine even where one is expected, and would ruin a report if they were replaced.
COMMON_WORDS = _words(
    "user users ubuntu root admin test tester guest default runner jovyan ec2-user debian centos azureuser colab "
    "kaggle train trainer training model models data dataset datasets work worker workers workspace code project "
    "projects job jobs run runs log logs cache tmp temp home scratch shared public none null true false self "
    "unknown localhost host hosts node nodes server client main master head local remote gpu gpus cuda cpu torch "
    "pytorch python pip conda env venv anaconda3 miniconda3 init load forward backward optimizer eval evaluation "
    "generate save rank ranks step steps x86_64 aarch64 amd64 arm64 phase memory error failed failure process "
    "processes device system file line name all any the and for not with from this that was has had allocated "
    "reserved cached free total capacity limit request outside checkpoint loss batch script app apps opt usr var "
    "lib bin etc mnt nfs team group org nobody daemon service slurm ray docker container static linux c10d etcd tcp "
    "windows darwin dynamic auto activations fragmentation logits sibling growth "
)
#: Addresses that name no machine in particular.
LOCAL_ADDRESSES = frozenset(("127.0.0.1", "0.0.0.0", "255.255.255.255"))  # noqa: S104 - text, not a socket
