"""Links with others' libraries behind the C++ library: link_last.py COMMAND...

Torch's and HiGHS's export the newer parts of it that they were linked with, and would
be asked for them if they came first. Other builds of torch have other parts.
"""

import re
import subprocess
import sys

LAST = re.compile(r"/torch/lib/[^/]*\.so$|/libhighs\.so$")

last = [word for word in sys.argv[1:] if LAST.search(word)]
others = [word for word in sys.argv[1:] if word not in last]
sys.exit(subprocess.call([*others, "-lstdc++", *last]))
