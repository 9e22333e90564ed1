"""What a user of Ansible reads where a host cannot be reached."""

from roamlet_ansible.connection.failures import in_ansibles_words


def test_arguments_of_calls_are_variables_of_the_inventory():
    text = "Load the key with ssh-add, name user= and an IdentityFile, or give a password=. A slow one needs a longer timeout="
    told = in_ansibles_words(text)
    assert "name ansible_user and ansible_ssh_private_key_file, or give an ansible_password (-k asks for it)." in told
    assert told.endswith("a longer ansible_ssh_timeout")


def test_command_lines_and_what_a_host_said_stay():
    text = "ssh -o ConnectTimeout=10 -o 'User=\"x\"' alpha\n    pam: user=x timeout=3"
    assert in_ansibles_words(text) == text
