"""Where frames are not seen, saving is refused with the reason."""

import pytest

import roamlet
from roamlet import snapshot


def test_it_is_refused_with_the_reason():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(ch.receive)()
    roamlet.schedule()
    with pytest.raises(roamlet.NoCore, match=r"on the greenlet backend|3\.11, 3\.12, 3\.13 and 3\.14"):
        snapshot.dumps(tasklet)
    tasklet.kill()


def test_so_is_a_checkpoint_and_no_file_is_written(tmp_path):
    path = tmp_path / "job.roamlet"
    roamlet.tasklet(roamlet.checkpoint)(path)
    with pytest.raises(roamlet.NoCore, match=r"on the greenlet backend|3\.11, 3\.12, 3\.13 and 3\.14"):
        roamlet.run()
    assert list(tmp_path.iterdir()) == []
