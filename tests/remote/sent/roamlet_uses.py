"""What the tests of real packages do on the target: each function really uses one package, on 3.10 and later."""


def django():
    import django.conf

    django.conf.settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    )
    django.setup()
    from django.contrib.auth.models import Group, User
    from django.core.management import call_command

    call_command("migrate", run_syncdb=True, verbosity=0)
    group = Group.objects.create(name="weavers")
    for name in ("ada", "grace", "joan"):
        User.objects.create_user(name, password="x").groups.add(group)
    found = User.objects.filter(groups__name="weavers", username__gt="b").order_by("-username")
    return [user.username for user in found], User.objects.get(username="ada").check_password("x")


def jinja2():
    import jinja2

    environment = jinja2.Environment(loader=jinja2.PackageLoader("roamlet_templates"), autoescape=True)
    try:
        environment.get_template("nothing.html")
    except jinja2.TemplateNotFound as error:
        missing = error.name
    return (
        environment.get_template("page.html").render(names=["warp", "<roamlet>"]),
        missing,
        environment.list_templates(),
    )


def sqlalchemy():
    import sqlalchemy

    engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.StaticPool)
    table = sqlalchemy.Table(
        "thread",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("name", sqlalchemy.String),
    )
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"name": "warp"}, {"name": "roamlet"}])
        rows = connection.execute(sqlalchemy.select(table.c.name).where(table.c.name.like("roam%")))
        return [row.name for row in rows]


def rich():
    import io

    from rich.console import Console
    from rich.table import Table

    table = Table(title="Threads")
    table.add_column("name")
    table.add_row("[bold]roamlet[/bold] :sparkles:")
    file = io.StringIO()
    Console(file=file, width=40).print(table)
    return file.getvalue()


def botocore():
    import botocore.session

    session = botocore.session.Session()
    session.set_credentials("key", "secret")
    client = session.create_client("sqs", region_name="eu-central-1")
    url = client.generate_presigned_url("list_queues")
    return client.meta.endpoint_url, url.startswith("https://"), "s3" in session.get_available_services()


def requests(url):
    import requests
    import requests.certs

    with open(requests.certs.where()) as file:
        certificates = file.read().count("BEGIN CERTIFICATE")
    try:
        requests.get(url, timeout=10)
        trusted = True
    except requests.exceptions.SSLError:
        trusted = False
    return certificates, trusted


def requests_with(url, path):
    import requests

    return requests.get(url, timeout=10, verify=path).text


def models():
    import django.db.models

    return django.db.models.Model.__module__
