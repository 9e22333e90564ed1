"""Three tasklets of one function, which switches in every way: line numbers are in the tests."""

import roamlet

gate = roamlet.channel()
log = []


def worker(number):
    total = number
    got = gate.receive()
    total += got
    roamlet.sleep(0.001 * number)
    total += 1
    roamlet.schedule()
    total += helper(total)
    return total


def helper(value):
    roamlet.schedule()
    log.append(value)
    return value


workers = [roamlet.spawn(worker, (number,)) for number in range(3)]
roamlet.schedule()
for value in range(3):
    gate.send(value)
print("result", [each.join() for each in workers])
