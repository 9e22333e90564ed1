"""Where frames are not seen, saving is refused with the reason."""

import pytest

import weft
from weft import snapshot


def test_it_is_refused_with_the_reason():
    ch = weft.channel()
    tasklet = weft.tasklet(ch.receive)()
    weft.schedule()
    with pytest.raises(weft.NoCore, match=r"on the greenlet backend|3\.11, 3\.12, 3\.13 and 3\.14"):
        snapshot.dumps(tasklet)
    tasklet.kill()


def test_so_is_a_checkpoint_and_no_file_is_written(tmp_path):
    path = tmp_path / "job.weft"
    weft.tasklet(weft.checkpoint)(path)
    with pytest.raises(weft.NoCore, match=r"on the greenlet backend|3\.11, 3\.12, 3\.13 and 3\.14"):
        weft.run()
    assert list(tmp_path.iterdir()) == []
